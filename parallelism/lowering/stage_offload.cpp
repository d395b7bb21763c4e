// Activation offload: what a layer keeps goes to the host after its forward and comes back one layer ahead of its
// backward. All layers of a piece do, or its first ones (Megatron-Core's --cpu-offloading-num-layers).
//
// Both ways share the copy stream and the device's host link. The memory is freed when the copy ends and taken again
// when the way back begins, so a slow link shows as memory first and as waiting in backward then. MTP modules stay.
#include "parallelism/lowering/stage.h"

namespace stepcast::parallelism {
namespace {

topology::AffineTime copy_time(const std::map<std::uint16_t, CohortBuilder::Held>& held, BytesPerSecond link) {
  double bytes = 0;
  double per_row = 0;
  for (const auto& [part, h] : held) {
    bytes += h.bytes;
    per_row += h.bytes_per_row;
  }
  return {Bytes(bytes) / link, Bytes(per_row) / link, Seconds(0)};
}

}  // namespace

bool Stage::offloads(const PieceState& piece, int block) const {
  const Offload& offload = low_.spec.offload;
  const int layers = offload.activation_layers > 0 ? offload.activation_layers : piece.content.layers;
  return offload.activations && block >= 0 && block < layers;
}

void Stage::offload_layer(int chunk, int block, std::size_t first_work) {
  Offloaded& layer = offloaded_[{chunk, block}];
  layer.held = out_.held_since(first_work);
  layer.load = ctx_.load;
  if (layer.slot < 0) layer.slot = out_.new_slot();
  OpSpec op;
  op.name = "offload_activations";
  op.time = copy_time(layer.held, ctx_.device().host_link_bandwidth);
  op.load = layer.load;
  op.layer = ctx_.layer;
  op.wait_streams = sim::bit(sim::Stream::compute);
  out_.copy(op);
  out_.free(layer.held);
}

void Stage::reload_layer(int chunk, int block) {
  const Offloaded& layer = offloaded_.at({chunk, block});
  OpSpec op;
  op.name = "reload_activations";
  op.time = copy_time(layer.held, ctx_.device().host_link_bandwidth);
  op.load = layer.load;
  op.layer = pieces_[static_cast<std::size_t>(chunk)].content.first_layer + block;
  op.wait_streams = sim::bit(sim::Stream::compute);
  op.record_slot = layer.slot;
  out_.copy(op);
  out_.alloc(layer.held);
}

void Stage::await_layer(int chunk, int block) { out_.wait_next(0, offloaded_.at({chunk, block}).slot); }

}  // namespace stepcast::parallelism
