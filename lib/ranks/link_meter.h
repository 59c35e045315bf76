// SPDX-License-Identifier: Apache-2.0
// The speed of the links between ranks, as a message sees them: it takes alpha + bytes / beta.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "lib/ranks/group.h"
#include "lib/timing/clock.h"

namespace roofbench::ranks {

struct LinkSpeed {
  double alpha = 0;  // seconds
  double beta = 0;   // bytes per second; 0: unknown

  // For messages one after the other. 0: unknown.
  double Seconds(double messages, double bytes) const { return beta > 0 ? messages * alpha + bytes / beta : 0; }
};

// Through the times of a short and of a long message. Unknown if the long one takes no longer.
LinkSpeed FitLink(double short_bytes, double short_seconds, double long_bytes, double long_seconds);

// Measures by messages that the ranks 0 and 1, 2 and 3, … send to and fro, all pairs at once. Every rank calls the same
// functions at the same time and gets the same result, that of the slowest pair, which a ring has to wait for.
class LinkMeter {
 public:
  // `bytes`: of the long message, at least 64 KiB. The messages lie in the memory of `device`, which `clock` times.
  // `group` must outlive it.
  LinkMeter(Group& group, int64_t bytes, std::unique_ptr<timing::Clock> clock, at::Device device);

  // For about `seconds`.
  LinkSpeed Measure(double seconds);

 private:
  // The median of the seconds that a message takes one way; 0 on a rank without a partner.
  double OneWay(at::Tensor& message, int64_t rounds);

  Group& group_;
  const std::unique_ptr<timing::Clock> clock_;
  at::Tensor short_, long_;
};

}  // namespace roofbench::ranks
