// Variables by name, which programs as text share with C++; a kind of reader with its attributes.
//
// Prints:
//   variables: lines reader steps
//   steps: 3, kept beyond the scope: 3
//   a holder: 1 shape of [-1], 2 + 2 records, then empty: 1
//   every second of 1 to 6, times 0.5: 0.5 1.5 2.5
//   attributes: count every names scale skip_first
//   a program read 2 records and closed 1 reader
#include <fstream>
#include <iostream>

#include "ringfeed/compat/program.h"
#include "ringfeed/compat/registry.h"
#include "ringfeed/compat/scope.h"
#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

void Variables() {
  std::shared_ptr<int> kept;
  rf::Scope scope;
  scope.Var<int>("steps") = 2;
  scope.Put("lines", std::make_shared<std::string>("lines.txt"));
  scope.Var<rf::ReaderHolder>("reader");
  std::cout << "variables:";
  for (const std::string& name : scope.Names()) std::cout << " " << name;
  ++*scope.Find<int>("steps");  // null if there is none of that type
  if (scope.Has("step") || scope.Find<float>("steps") != nullptr)
    throw std::runtime_error("there are other variables");
  kept = scope.Shared<int>("steps");
  std::cout << "\nsteps: " << scope.Get<int>("steps");
  std::cout << ", kept beyond the scope: " << *kept << "\n";
}

/// A holder is a place for a reader; it has the calls that a loop needs.
void Holder() {
  rf::ReaderHolder holder;
  holder.Reset(rf::OpenFiles({"lines.txt"}));
  rf::Reader same = holder.Get();
  int first = 0, second = 0;
  while (holder.HasNext()) holder.ReadNext(), ++first;
  holder.ReInit();
  rf::Instance record;
  while (holder.TryReadNext(&record) == rf::ReadResult::kRecord) ++second;
  holder.ResetAll();  // the same, from any reader of several chains
  if (!same.HasNext()) throw std::runtime_error("it did not start again");
  std::cout << "a holder: " << holder.shapes().size() << " shape of "
            << rf::ShapeToString(holder.shapes().at(0)) << ", " << first << " + " << second
            << " records, then empty: ";
  holder.Clear();
  std::cout << holder.empty() << "\n";
}

/// Numbers from 1 on, each `every`-th of them.
class Numbers final : public rf::InstanceSource {
 public:
  explicit Numbers(const rf::Attributes& attributes)
      : count_(attributes.Integer("count")),
        every_(attributes.Integers("every").at(0)),
        scale_(static_cast<float>(attributes.Number("scale"))),
        next_(attributes.Boolean("skip_first") ? 1 + every_ : 1),
        name_(attributes.Texts("names").at(0)) {}

  rf::ReadResult ReadNext(rf::Instance* row, std::stop_token, rf::Status*) override {
    if (next_ > count_) return rf::ReadResult::kEnd;
    *row = {rf::MakeScalar(static_cast<float>(next_) * scale_)};
    next_ += every_;
    return rf::ReadResult::kRecord;
  }
  std::vector<rf::SlotSpec> slots() const override { return {{name_, rf::kFloat32, {}}}; }

 private:
  std::int64_t count_, every_;
  float scale_;
  std::int64_t next_;
  std::string name_;
};

void Kinds() {
  using Type = rf::AttributeType;
  rf::RegisterReader(
      "numbers",
      {{"count", Type::kInteger},
       {"every", Type::kIntegers},
       {"scale", Type::kNumber, 1.0},  // with a default
       {"skip_first", Type::kBoolean, false},
       {"names", Type::kTexts, std::vector<std::string>{"x"}}},
      [](const rf::Attributes& attributes, const std::vector<rf::Reader>&, rf::Scope*) {
        return rf::FromInstanceSource(std::make_unique<Numbers>(attributes));
      });
  rf::Attributes attributes = {{"count", std::int64_t{6}}, {"scale", 1.0}};
  attributes.Set("every", std::vector<std::int64_t>{2}).Set("scale", 0.5);
  rf::Reader numbers = rf::CreateReader("numbers", attributes);
  std::cout << "every second of 1 to 6, times 0.5:";
  while (numbers.HasNext()) {
    const rf::Instance row = numbers.ReadNext();
    std::cout << " " << row["x"].Values<float>()[0];
  }
  attributes.Set("skip_first", true).Set("names", std::vector<std::string>{"y"});
  std::cout << "\nattributes:";
  for (const auto& [name, value] : attributes.values()) std::cout << " " << name;
  std::cout << "\n";
}

/// The language is a .proto file, which has the readers that are registered.
void Program() {
  if (rf::FeedProgram::Grammar().find("create_batch_reader") == std::string::npos)
    throw std::runtime_error("the language has no batches");
  rf::FeedProgram program = rf::FeedProgram::FromText(
      R"(startup { op { open_files { name: "records" file_names: "lines.txt" } } }
         main {
           op { read_recordio { reader: "records" count: 10 output: "all" } }
           op { close_reader { reader: "records" } }
         })",
      "lines.program");
  rf::Scope scope;
  program.RunStartup(&scope);
  program.RunMain(&scope);
  const auto& all = scope.Get<std::vector<rf::Instance>>("all");
  const std::vector<rf::PipelineStats>& closed = program.closed_readers();
  std::cout << "a program read " << all.size() << " records and closed " << closed.size()
            << " reader\n";
}

int main() try {
  std::ofstream("lines.txt") << "one\ntwo\n";
  Variables();
  Holder();
  Kinds();
  Program();
} catch (const std::exception& error) {
  std::cerr << "variables: " << error.what() << "\n";
  return 1;
}
