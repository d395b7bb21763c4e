#!/bin/bash
# Imports a profiler trace of 1 GB: fails above 2 GB of memory or 60 seconds of processor time.
# usage: kineto_gigabyte.sh STEPCAST [MEGABYTES]
set -eu
stepcast=${1:?usage: kineto_gigabyte.sh STEPCAST [MEGABYTES]}
megabytes=${2:-1000}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trace=$folder/trace.json

# As PyTorch writes it: a launch and two host operators for each kernel, with their arguments. (%d of some awks ends at
# 2^31, which times since 1970 are above.)
awk -v bytes=$((megabytes * 1000000)) 'BEGIN {
  printf "{\"schemaVersion\":1,\"distributedInfo\":{\"backend\":\"nccl\",\"rank\":0,\"world_size\":64},\"traceEvents\":[\n"
  split("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNN|void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64>>(flash::Flash_fwd_params)|ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)|void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)", names, "|")
  written = 0
  for (i = 1; written < bytes; ++i) {
    t = 1712345678000000 + i * 20
    line = sprintf("{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": 4711, \"tid\": 4711, \"ts\": %.0f.125, \"dur\": 12.5, \"args\": {\"External id\": %d, \"Record function id\": 0, \"Concrete Inputs\": [\"\", \"\"], \"Input type\": [\"c10::BFloat16\", \"c10::BFloat16\"], \"Input Dims\": [[4096, 4096], [4096, 14336]], \"Ev Idx\": %d}},\n", t, i, i)
    line = line sprintf("{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 4711, \"tid\": 4711, \"ts\": %.0f.250, \"dur\": 4.125, \"args\": {\"External id\": %d, \"cbid\": 211, \"correlation\": %d}},\n", t, i, i)
    line = line sprintf("{\"ph\": \"s\", \"id\": %d, \"pid\": 4711, \"tid\": 4711, \"ts\": %.0f.250, \"cat\": \"ac2g\", \"name\": \"ac2g\"},\n", i, t)
    line = line sprintf("{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"%s\", \"pid\": 0, \"tid\": %d, \"ts\": %.0f.500, \"dur\": 17.250, \"args\": {\"External id\": %d, \"queued\": 0, \"device\": 0, \"context\": 1, \"stream\": %d, \"correlation\": %d, \"registers per thread\": 168, \"shared memory\": 213000, \"blocks per SM\": 1.0, \"warps per SM\": 12.0, \"grid\": [132, 1, 1], \"block\": [384, 1, 1], \"est. achieved occupancy %%\": 19}},\n", names[i % 4 + 1], i % 4 == 2 ? 20 : 7, t, i, i % 4 == 2 ? 20 : 7, i)
    printf "%s", line
    written += length(line)
  }
  printf "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 0, \"ts\": 0, \"args\": {\"name\": \"python\"}}]}\n"
}' >"$trace"

ls -l "$trace" | awk '{printf "%.0f MB\n", $5 / 1e6}'
ulimit -v 2000000
ulimit -t 60
time "$stepcast" import kineto "$trace" --quiet
echo "done within 2 GB of address space and 60 s of processor time"
