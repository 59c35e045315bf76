// SPDX-License-Identifier: Apache-2.0
// The axis `pages` of cases with memory of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/hardware/roofs/huge_buffer.h"
#include "lib/kernels/threading/huge_pages.h"
#include "lib/suite/family_of.h"

namespace roofbench {

inline constexpr char kPagesAxis[] = "pages";

inline hardware::Pages PagesAt(const Point& at) {
  return at.Text(kPagesAxis) == "huge" ? hardware::Pages::kHuge : hardware::Pages::kSmall;
}

// Whether the memory consists of whole `units`, and the system has such pages. It is not among the operands that a cold
// cache evicts.
inline absl::Status PagesSupport(const Point& at, int64_t unit) {
  if (at.IsCold()) return absl::UnimplementedError("its memory lies where its size leaves it: cache:warm");
  if (at.Int("bytes") % unit != 0) {
    return absl::UnimplementedError(absl::StrCat("bytes must be a multiple of ", unit));
  }
  if (PagesAt(at) == hardware::Pages::kSmall || kernels::GrantsHugePages()) return absl::OkStatus();
  return absl::UnimplementedError(
      "the system grants no huge pages (/sys/kernel/mm/transparent_hugepage/enabled), or --allocator=system");
}

template <typename O>
FamilyOf<O> WithPages(std::string name, std::string doc, int64_t unit) {
  FamilyOf<O> family(std::move(name), std::move(doc));
  return family.Choice(kPagesAxis, {"huge", "small"}, "huge: 2 MiB, small: 4 KiB")
      .Size("bytes")
      .DefaultCache(kWarm)
      .Details([](const Point& at, const std::shared_ptr<O>&, Case& built) { built.shared_bytes = at.Number("bytes"); })
      .Supports([unit](const Point& at, const Device&) { return PagesSupport(at, unit); });
}

}  // namespace roofbench
