#include "readers/chain/graph.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/refuse.h"
#include "readers/chain/reader_access.h"
#include "readers/chain/session.h"
#include "readers/chain/user_code.h"
#include "readers/parsers/worker_stop.h"

namespace ringfeed {

namespace {

[[noreturn]] void RefuseWithin() {
  Refuse(
      "a function of the chain, or its source, called the reader that waits for it: call it in "
      "the loop that takes the batches, or open another reader");
}

void RefuseWithin(const ReaderSession& session) {
  if (UserCodeLocked::IsOf(&session) || session.IsWithin()) RefuseWithin();
}

}  // namespace

GraphNode::GraphNode(Kind&& kind, std::shared_ptr<GraphNode> input)
    : kind_(std::move(kind)), input_(std::move(input)) {}

std::shared_ptr<GraphNode> GraphNode::On(const Reader& input, Kind kind) {
  if (!input) Refuse("the reader to decorate is empty");
  GraphNode& node = *ReaderAccess::NodeOf(input);
  if (node.IsOnDevice()) {
    Refuse("batches on a device are for their consumer: put the double buffer at the chain's end");
  }
  auto consumer = std::make_shared<GraphNode>(std::move(kind), ReaderAccess::NodeOf(input));
  const bool many = std::holds_alternative<ShareNode>(node.kind_);
  const std::lock_guard lock(node.mutex_);
  if (node.session_ != nullptr) {
    Refuse("the reader is being read already: build the whole chain first, then read its end");
  }
  if (node.retired_) Refuse("the reader was given to Multiplex or ReadAs: build on that");
  std::erase_if(node.consumers_, [](const auto& each) { return each.expired(); });
  if (!many && !node.consumers_.empty()) {
    Refuse("the reader has a consumer already: a node has one, Share makes one that has many");
  }
  node.consumers_.push_back(consumer);
  return consumer;
}

bool GraphNode::IsOnDevice() const {
  const auto* const source = std::get_if<SourceNode>(&kind_);
  return source != nullptr && source->instances != nullptr && source->instances->on_device();
}

GraphNode::~GraphNode() {
  // Its end would wait for its threads, which this process does not have.
  if (reads_.IsParent()) new std::shared_ptr<ReaderSession>(std::move(session_));
}

void GraphNode::RefuseInChild() const {
  if (!reads_.IsParent()) return;
  Refuse(
      "this process was forked after the reader was read, and the reader's threads are its "
      "parent's: open the files again here");
}

std::shared_ptr<ReaderSession> GraphNode::Session() {
  RefuseInChild();
  if (UserCodeLocked::IsOf(this)) RefuseWithin();
  if (HasConsumer()) Refuse("the reader was given to a decorator: read the end of the chain");
  return InnerSession();
}

void GraphNode::Retire() {
  if (HasConsumer()) Refuse("the reader has a consumer already");
  const std::lock_guard lock(mutex_);
  if (session_ != nullptr || retired_) Refuse("the stream is being read already");
  retired_ = true;
}

std::shared_ptr<ReaderSession> GraphNode::InnerSession() {
  const std::lock_guard lock(mutex_);
  if (retired_) Refuse("the reader was given to Multiplex or ReadAs: read that");
  if (session_ != nullptr) return session_;
  RewindInput rewind_input;
  if (input_ != nullptr) rewind_input = [input = input_] { return input->ReInitInput(); };
  const UserCodeLocked locked(this);
  session_ = std::make_shared<ReaderSession>(LowerChain(*this), std::move(rewind_input));
  return session_;
}

std::shared_ptr<ReaderSession> InputSessionOf(const ExecutionPlan& plan) {
  if (plan.source.instances == nullptr) return nullptr;
  const Reader input = plan.source.instances->input();
  return input ? ReaderAccess::NodeOf(input)->InnerSession() : nullptr;
}

std::shared_ptr<ReaderSession> GraphNode::StartedSession() const {
  const std::lock_guard lock(mutex_);
  return session_;
}

void GraphNode::RefuseFromWithin() const {
  if (!WorkerStop::IsWorker() && !UserCodeLocked::IsAny()) return;
  for (const GraphNode* node = this; node != nullptr; node = node->input_.get()) {
    if (UserCodeLocked::IsOf(node)) RefuseWithin();
    const std::shared_ptr<ReaderSession> session = node->StartedSession();
    if (session != nullptr) RefuseWithin(*session);
  }
}

GraphNode::Nodes GraphNode::Consumers() const {
  const std::lock_guard lock(mutex_);
  Nodes consumers;
  for (const auto& each : consumers_) {
    if (auto consumer = each.lock()) consumers.push_back(std::move(consumer));
  }
  return consumers;
}

std::shared_ptr<GraphNode> GraphNode::Top() {
  std::shared_ptr<GraphNode> top = shared_from_this();
  while (top->input_ != nullptr) top = top->input_;
  return top;
}

GraphNode::Nodes GraphNode::Graph() {
  Nodes nodes = {Top()};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (auto& consumer : nodes[i]->Consumers()) nodes.push_back(std::move(consumer));
  }
  return nodes;
}

std::vector<std::shared_ptr<GraphNode>> GraphNode::EndPoints() {
  Nodes nodes = Graph();
  // A node that was given to Multiplex or ReadAs is read there.
  std::erase_if(nodes, [](const auto& node) {
    if (node->HasConsumer()) return true;
    const std::lock_guard lock(node->mutex_);
    return node->retired_;
  });
  return nodes;
}

namespace {

void CheckRewindable(const std::vector<std::shared_ptr<ReaderSession>>& sessions) {
  for (const auto& session : sessions) {
    RefuseWithin(*session);
    if (!session->plan().rewindable()) {
      Refuse(StatusCode::kUnsupported,
             "a stream cannot start again: ReInit needs files, or a reader that can");
    }
  }
}

// Pauses the ends first, so that none reads from a paused chain; then resumes from the sources on.
void ReInitAll(const std::vector<std::shared_ptr<ReaderSession>>& sessions) {
  CheckRewindable(sessions);
  for (auto it = sessions.rbegin(); it != sessions.rend(); ++it) (*it)->Pause();
  std::exception_ptr failure;
  const auto attempt = [&](const auto& action) {
    try {
      action();
    } catch (...) {
      if (failure == nullptr) failure = std::current_exception();
    }
  };
  for (auto it = sessions.rbegin(); it != sessions.rend(); ++it) {
    attempt([&] { (*it)->AimSource(); });
  }
  for (const auto& session : sessions) attempt([&] { session->Resume(); });
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace

void GraphNode::ReInit() {
  RefuseInChild();
  RefuseFromWithin();
  const std::shared_ptr<GraphNode> top = Top();
  const std::lock_guard lock(top->reinit_mutex_);
  ReInitAll(SessionsToStartAgain());
}

void GraphNode::CheckReInit() { CheckRewindable(SessionsToStartAgain()); }

std::vector<std::shared_ptr<ReaderSession>> GraphNode::SessionsToStartAgain() {
  std::vector<std::shared_ptr<ReaderSession>> sessions;
  for (const auto& node : Graph()) {
    auto session = node->StartedSession();
    if (session == nullptr) continue;
    if (node.get() != this && session->is_read_ahead()) {
      Refuse(StatusCode::kUnsupported,
             "a device feed reads another chain of the same shared reader, which would "
             "start again under it: close that feed, or give one feed both devices");
    }
    sessions.push_back(std::move(session));
  }
  return sessions;
}

void GraphNode::GoToAim() {
  // An aim before the first read is taken at once, unless it is at another pass of a data set: then
  // nothing must be stopped or rewound.
  if (Session()->has_aim()) ReInit();
}

bool GraphNode::ReInitInput() {
  std::vector<std::shared_ptr<ReaderSession>> sessions;
  for (const GraphNode* node = input_.get(); node != nullptr; node = node->input_.get()) {
    if (std::holds_alternative<ShareNode>(node->kind_)) return false;
    if (auto session = node->StartedSession()) sessions.push_back(std::move(session));
  }
  std::reverse(sessions.begin(), sessions.end());
  ReInitAll(sessions);
  return true;
}

}  // namespace ringfeed
