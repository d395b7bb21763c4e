// Quantities with units, and the engine's clock.
//
// Model arithmetic is double in strong types; only arithmetic that means
// something compiles (Bytes / BytesPerSecond -> Seconds). The engine's clock is
// Ticks: int64 picoseconds, range +-106 days. to_ticks() is the one conversion.
// GB is 1e9 bytes, GiB is 2^30; rates are per direction.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>

namespace stepcast {

// A double with a unit tag: sums and differences of its kind, scaling by a number, ratio to a number.
template <class Tag>
struct Quantity {
  double value = 0.0;

  constexpr Quantity() = default;
  constexpr explicit Quantity(double v) : value(v) {}

  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value + b.value); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value - b.value); }
  friend constexpr Quantity operator*(Quantity a, double k) { return Quantity(a.value * k); }
  friend constexpr Quantity operator*(double k, Quantity a) { return Quantity(a.value * k); }
  friend constexpr Quantity operator/(Quantity a, double k) { return Quantity(a.value / k); }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value / b.value; }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  constexpr Quantity& operator+=(Quantity b) {
    value += b.value;
    return *this;
  }
};

using Seconds = Quantity<struct SecondsTag>;
using Bytes = Quantity<struct BytesTag>;
using Flops = Quantity<struct FlopsTag>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag>;
using Tokens = Quantity<struct TokensTag>;

constexpr Seconds operator/(Bytes b, BytesPerSecond r) { return Seconds(b.value / r.value); }
constexpr Seconds operator/(Flops f, FlopsPerSecond r) { return Seconds(f.value / r.value); }
constexpr BytesPerSecond operator/(Bytes b, Seconds s) { return BytesPerSecond(b.value / s.value); }
constexpr FlopsPerSecond operator/(Flops f, Seconds s) { return FlopsPerSecond(f.value / s.value); }
constexpr Bytes operator*(BytesPerSecond r, Seconds s) { return Bytes(r.value * s.value); }
constexpr Flops operator*(FlopsPerSecond r, Seconds s) { return Flops(r.value * s.value); }

constexpr Seconds microseconds(double us) { return Seconds(us * 1e-6); }
constexpr BytesPerSecond gb_per_s(double gb) { return BytesPerSecond(gb * 1e9); }
constexpr FlopsPerSecond tflops(double t) { return FlopsPerSecond(t * 1e12); }
constexpr Bytes gib(double g) { return Bytes(g * 1073741824.0); }
constexpr Bytes gigabytes(double g) { return Bytes(g * 1e9); }

// Picoseconds on the engine's clock.
using Ticks = std::int64_t;
inline constexpr double ticks_per_second = 1e12;

// Nearest picosecond. The caller guarantees a finite time below 100 days.
inline Ticks to_ticks(Seconds s) { return static_cast<Ticks>(std::llround(s.value * ticks_per_second)); }
constexpr Seconds to_seconds(Ticks t) { return Seconds(static_cast<double>(t) / ticks_per_second); }

}  // namespace stepcast
