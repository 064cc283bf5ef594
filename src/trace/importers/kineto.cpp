// The PyTorch profiler's Chrome JSON (Kineto), and other traces in the Chrome event format.
//
// Threads pull: each takes the next piece under a lock (reading and inflating happen there), parses it with its own
// tables, and commits its pieces when it is their turn; a few may wait. Ids depend on the order of the file only.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "base/text.hpp"
#include "base/workers.hpp"
#include "trace/importers/chrome_commit.hpp"
#include "trace/importers/chrome_metadata.hpp"
#include "trace/importers/chrome_parser.hpp"
#include "trace/importers/importer.hpp"
#include "trace/importers/json_text.hpp"

namespace foretrace::trace {

namespace {

constexpr std::uint64_t kLongestTail = 256ull << 20;
constexpr std::size_t kMostEvents = 0xFFFF'FFF0u;

class Import {
 public:
  Import(PieceReader& reader, Trace& trace, const LoadOptions& options, bool accept_miscuts)
      : reader_(reader), trace_(trace), options_(options), committer_(trace), accept_miscuts_(accept_miscuts) {}

  void run(unsigned threads) {
    run_workers(threads, [this] { work(); }, [this] { give_up(); });
  }

  // Set when run() has returned.
  bool miscut = false;
  bool array_ended = false;
  bool truncated = false;
  std::uint64_t truncated_at = 0;
  std::string tail;           ///< what follows the array's ']'
  std::uint64_t tail_at = 0;  ///< its offset in the input
  bool tail_too_long = false;
  bool too_many = false;

  [[nodiscard]] const StringTable& lane_keys() const { return committer_.lane_keys(); }

 private:
  /// A piece whose turn to be committed has not come.
  struct Parsed {
    Piece piece;
    Batch batch;
  };
  // So many a thread may be ahead of its turn, so that it need not sleep while another one is held up.
  static constexpr std::size_t kAhead = 4;

  void work() {
    ChromeParser parser;
    IdMaps maps;
    std::deque<std::unique_ptr<Parsed>> waiting;  // in the order of the file
    std::vector<std::unique_ptr<Parsed>> unused;  // the last one is still in the cache
    bool more = true;
    while (more || !waiting.empty()) {
      if (more) {
        std::unique_ptr<Parsed> next;
        if (unused.empty()) {
          next = std::make_unique<Parsed>();
        } else {
          next = std::move(unused.back());
          unused.pop_back();
        }
        {
          const std::lock_guard lock(reading_);
          more = !stop_ && reader_.next(next->piece);
        }
        if (more) {
          parser.parse(next->piece, next->batch);
          waiting.push_back(std::move(next));
        }
      }
      std::unique_lock lock(committing_, std::defer_lock);
      if (!more || waiting.size() >= kAhead) {
        lock.lock();
        turn_.wait(lock, [&] { return gave_up_ || waiting.empty() || is_turn_of(*waiting.front()); });
      } else if (!lock.try_lock()) {
        continue;
      }
      if (gave_up_) return;
      bool any = false;
      for (; !waiting.empty() && is_turn_of(*waiting.front()); any = true, ++next_commit_) {
        if (!stop_) commit(waiting.front()->piece, waiting.front()->batch, parser, maps);
        unused.push_back(std::move(waiting.front()));
        waiting.pop_front();
      }
      lock.unlock();
      if (any) turn_.notify_all();
    }
  }

  [[nodiscard]] bool is_turn_of(const Parsed& parsed) const { return next_commit_ == parsed.piece.sequence; }

  // A thread is gone, and with it the piece whose turn the others wait for.
  void give_up() {
    {
      const std::lock_guard lock(committing_);
      gave_up_ = true;
      stop_ = true;
    }
    turn_.notify_all();
  }

  void commit(const Piece& piece, const Batch& batch, const ChromeParser& parser, IdMaps& maps) {
    if (array_ended) {  // a piece of the tail that was taken for events
      append_tail("," + std::string(piece.text()));
      return;
    }
    if (batch.miscut && !accept_miscuts_) {
      miscut = true;
      stop_ = true;
      return;
    }
    if (trace_.size() + batch.events.size() > kMostEvents) {
      too_many = true;
      stop_ = true;
      return;
    }
    committer_.commit(batch, parser.tables, maps);
    if (batch.truncated) {
      truncated = true;
      truncated_at = piece.offset + batch.truncated_at;
    }
    if (batch.array_ended) {
      array_ended = true;
      tail_at = piece.offset + batch.tail_at;
      append_tail(piece.text().substr(batch.tail_at));
    }
    if (options_.progress && piece.sequence % 4 == 0) {
      options_.progress("reading " + trace_.path, reader_.source().consumed(), reader_.source().total(), kBytes);
    }
  }

  void append_tail(std::string_view text) {
    if (tail.size() + text.size() > kLongestTail) {
      tail_too_long = true;
      stop_ = true;
    } else {
      tail += text;
    }
  }

  PieceReader& reader_;
  Trace& trace_;
  const LoadOptions& options_;
  Committer committer_;
  bool accept_miscuts_;
  std::mutex reading_;
  std::mutex committing_;
  std::condition_variable turn_;
  std::uint64_t next_commit_ = 0;
  bool gave_up_ = false;
  std::atomic<bool> stop_ = false;
};

tl::unexpected<Error> unreadable(const std::string& path, std::string message, std::int64_t offset, std::string hint) {
  return tl::unexpected(Error{ErrorCode::kUnreadable, std::move(message), path, offset, std::move(hint)});
}

// The end of the input is not where the JSON says it should be: an error, or with `partial` a counted loss.
Status check_end(const Import& import, const PieceReader& reader, Trace& trace, const LoadOptions& options,
                 const TopLevelScan& tail) {
  std::string message;
  std::int64_t offset = Error::kNoOffset;
  std::string hint = "the writer was probably interrupted; --partial reads what came before";
  if (const Error* error = reader.source_error()) {
    message = error->message;
    offset = static_cast<std::int64_t>(reader.offset());
    hint = error->hint;
  } else if (import.truncated) {
    message = "the JSON text ends inside an event: the file is truncated";
    offset = static_cast<std::int64_t>(import.truncated_at);
  } else if (!import.array_ended && !reader.bare_array()) {
    message = "the JSON text ends before traceEvents is closed: the file is truncated";
    offset = static_cast<std::int64_t>(reader.offset());
  } else if (import.array_ended && !reader.bare_array() && tail.stop != TopLevelScan::Stop::kEnd) {
    offset = static_cast<std::int64_t>(import.tail_at + tail.at);
    if (tail.stop == TopLevelScan::Stop::kMalformed) {
      message = "what follows traceEvents is not valid JSON";
      hint = "--partial reads the events and drops what follows them";
    } else {
      message = "the JSON text ends before its object is closed: the file is truncated";
    }
  } else {
    return {};
  }
  if (!options.partial) return unreadable(trace.path, message, offset, hint);
  note_truncated(trace, message, offset);
  return {};
}

// Reads the whole input once with one kind of cut. Nothing when the cuts were wrong.
Result<bool> attempt(ByteSource& source, Trace& trace, const LoadOptions& options, Cut cut, bool accept_miscuts) {
  PieceReader reader(source, cut);
  if (Status head = reader.read_head(); !head) {
    head.error().file = trace.path;
    return forward(head);
  }
  trace.metadata = std::move(reader.head());
  Import import(reader, trace, options, accept_miscuts);
  const unsigned threads = thread_count(options.threads);
  import.run(std::min(threads, 64u));
  if (import.miscut) return false;
  if (import.too_many) {
    return unreadable(trace.path, "the trace has more than 4 billion events", Error::kNoOffset, "record fewer steps");
  }
  if (import.tail_too_long) {
    return unreadable(trace.path, "more than 256 MB follow traceEvents", static_cast<std::int64_t>(import.tail_at), {});
  }

  TopLevelScan tail{TopLevelScan::Stop::kEnd, 0};
  if (import.array_ended && !reader.bare_array()) {
    tail = scan_top_level(import.tail, 0, trace.metadata);
    if (tail.stop == TopLevelScan::Stop::kEvents) {
      trace.diagnostics.add("second_trace_events", Severity::kDataLoss,
                            "a second traceEvents array and what follows it were left out", {},
                            static_cast<std::int64_t>(import.tail_at + tail.at));
      tail.stop = TopLevelScan::Stop::kEnd;
    }
  } else if (!import.array_ended && reader.bare_array()) {
    trace.diagnostics.add("open_array", Severity::kInfo,
                          "the array of events is not closed, which Chrome traces allow");
  }
  if (import.array_ended && tail.stop == TopLevelScan::Stop::kEnd) {
    const std::size_t closed = reader.bare_array() ? 0 : tail.at + 1;
    const std::size_t more = skip_space(import.tail, closed);
    if (more < import.tail.size() && trace.diagnostics.find("second_trace_events") == nullptr) {
      trace.diagnostics.add(
          "text_behind_the_end", Severity::kDataLoss, "what follows the end of the trace was left out",
          std::string_view(import.tail).substr(more, 160), static_cast<std::int64_t>(import.tail_at + more));
    }
  }
  FORETRACE_TRY_VOID(check_end(import, reader, trace, options, tail));
  trace.input_bytes = reader.offset();
  read_metadata(trace);
  finish_trace(trace, import.lane_keys());
  return true;
}

Result<Trace> read_kineto(ByteSource& source, const std::string& path, const LoadOptions& options) {
  // Cuts are guesses that are almost always right. When one is not, brackets are counted over every byte; when that
  // fails too, the input itself is damaged and what can be repaired is repaired. A stream cannot be read twice.
  struct Attempt {
    Cut cut;
    bool accept_miscuts;
  };
  constexpr Attempt kAttempts[] = {{Cut::kFast, false}, {Cut::kExact, false}, {Cut::kFast, true}};
  const bool rereadable = source.rewind();
  for (const Attempt& next : kAttempts) {
    const bool last = !rereadable || next.accept_miscuts;
    Trace trace;
    trace.path = path;
    trace.format = "kineto";
    auto done = attempt(source, trace, options, next.cut, last);
    const bool exact_failed = next.cut == Cut::kExact && (!done || trace.partial);
    if ((done && !*done) || exact_failed) {
      if (!last && source.rewind()) continue;
    }
    if (!done) return forward(done);
    return trace;
  }
  return fail(ErrorCode::kInternal, "the trace could not be read in any way");
}

int sniff_kineto(std::string_view head) {
  const std::size_t at = skip_space(head, head.starts_with("\xEF\xBB\xBF") ? 3 : 0);
  if (at >= head.size()) return 0;
  if (head[at] != '{' && head[at] != '[') return 0;
  if (contains(head, "\"traceEvents\"") || contains(head, "\"schemaVersion\"")) {
    return 90;
  }
  return contains(head, "\"ph\"") ? 60 : 20;
}

}  // namespace

Importer kineto_importer() {
  return {"kineto", "PyTorch profiler (Kineto) traces, and other Chrome JSON traces", ".json .json.gz .json.zst",
          sniff_kineto, read_kineto};
}

}  // namespace foretrace::trace
