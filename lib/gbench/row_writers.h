// SPDX-License-Identifier: Apache-2.0
// Rows as JSON and as CSV.
#pragma once

#include <benchmark/benchmark.h>

#include <ostream>
#include <vector>

#include "lib/results/row.h"

namespace roofbench {

class RowWriter {
 public:
  virtual ~RowWriter() = default;
  virtual void Begin(const benchmark::BenchmarkReporter::Context& context) = 0;
  virtual void Add(const std::vector<Row>& rows) = 0;
  virtual void Finish() = 0;
};

// Google Benchmark's JSON: its header, and rows of RowJson.
class JsonRows : public RowWriter {
 public:
  JsonRows(std::ostream& out, TimeUnit unit);
  void Begin(const benchmark::BenchmarkReporter::Context& context) override;
  void Add(const std::vector<Row>& rows) override;
  void Finish() override;

 private:
  std::ostream& out_;
  const TimeUnit unit_;
  benchmark::JSONReporter header_;
  bool is_empty_ = true;
};

// A table with the union of all axes and counters as columns, written at the end. The library's own CSV reporter stops
// the program at a counter that its first case did not have.
class CsvTable : public RowWriter {
 public:
  CsvTable(std::ostream& out, TimeUnit unit);
  void Begin(const benchmark::BenchmarkReporter::Context& /*context*/) override {}
  void Add(const std::vector<Row>& rows) override;
  void Finish() override;

 private:
  std::ostream& out_;
  const TimeUnit unit_;
  std::vector<Row> rows_;
};

}  // namespace roofbench
