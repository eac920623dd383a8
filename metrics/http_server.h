#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <stop_token>
#include <string>
#include <vector>

#include "metrics/address.h"
#include "metrics/http.h"
#include "metrics/own_descriptor.h"
#include "ringfeed/status.h"

struct pollfd;

namespace ringfeed {

/// Limits on what a client can make the process spend.
struct HttpLimits {
  std::size_t connections = 16;   ///< one more closes the oldest
  std::size_t head_bytes = 8192;  ///< of a request
  std::chrono::milliseconds request{
      5000};  ///< from the connection to the end of the request's head
  std::chrono::milliseconds answer{10000};   ///< to take the answer
  std::chrono::milliseconds farewell{1000};  ///< to close the connection after it
};

/// A socket that listens there; if it is a path, only for its user. First removes from the path
/// what an ended process left, and nothing else. Fails if another process listens there: a live
/// socket is never taken over. *address gets the port that was free.
Status ListenAt(MetricsAddress* address, OwnDescriptor* listener);

/// Answers one request for each connection. One thread runs it. No client can make it wait for that
/// client alone, hold more than the limits say, or keep others out.
class HttpServer {
 public:
  using Answer = std::function<HttpAnswer(const PageRequest& request)>;

  /// `local_only`: refuses requests by another name than this machine's.
  HttpServer(OwnDescriptor listener, bool local_only, const HttpLimits& limits, Answer answer);

  /// Runs until a stop is requested and `waker`, an eventfd, can be read.
  void Run(const std::stop_token& stop, int waker);

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage : std::uint8_t { kRequest, kAnswer, kFarewell };
  struct Connection {
    OwnDescriptor socket;
    Stage stage = Stage::kRequest;
    Clock::time_point until;
    std::string text;      ///< bytes received, then bytes to send
    std::size_t sent = 0;  ///< of it
  };

  void Accept();
  /// False: the connection is over.
  bool GoOn(Connection* connection);
  bool Receive(Connection* connection);
  bool Send(Connection* connection);
  bool DrainRest(Connection* connection) const;
  bool BeginAnswer(Connection* connection, const HttpAnswer& answer, bool with_body);
  HttpAnswer AnswerTo(const PageRequest& request) const;
  int MillisecondsToWait() const;
  std::vector<pollfd> WhatToPoll(int waker) const;

  OwnDescriptor listener_;
  const bool local_only_;
  const HttpLimits limits_;
  const Answer answer_;
  std::list<Connection> connections_;  ///< the oldest first
  Clock::time_point accepts_from_;     ///< later than now: the system had no descriptors
};

}  // namespace ringfeed
