#pragma once
// From an operation's arguments to its work. Sizes come from shapes alone; what only kernels tell (TF32, which gradient of a
// convolution) is added by describe().

#include <string_view>

#include "foretrace/work/work.hpp"
#include "work/op_names.hpp"
#include "work/op_view.hpp"

namespace foretrace::work {

/// `name` is the operation's, for the few whose argument order depends on it. Without shapes only the family is set.
Work describe_op(const OpClass& what, std::string_view name, const OpView& op);

// Parts of it, by kind of signature. All take the same arguments, whether or not they need them.
void describe_gemm(Work& work, const OpClass& what, std::string_view name, const OpView& op);
void describe_conv(Work& work, const OpClass& what, std::string_view name, const OpView& op);
void describe_attention(Work& work, const OpClass& what, std::string_view name, const OpView& op);
void describe_rnn(Work& work, const OpClass& what, std::string_view name, const OpView& op);
void describe_embedding(Work& work, const OpClass& what, std::string_view name, const OpView& op);
/// What only a launch shows: how many indices there were, where the profiler records none (aten::index).
void describe_index_launch(Work& work, std::string_view kernel, const trace::KernelLaunch& launch);
void describe_along(Work& work, const OpClass& what, std::string_view name, const OpView& op);
void describe_pooling(Work& work, const OpClass& what, std::string_view name, const OpView& op);
void describe_loss(Work& work, const OpClass& what, std::string_view name, const OpView& op);
void describe_foreach(Work& work, const OpClass& what, std::string_view name, const OpView& op);

/// Counts a tensor that is read; one of another type than work.dtype keeps its type when that changes.
void add_read(Work& work, const Argument& tensor);
void add_written(Work& work, std::int64_t elements, Dtype dtype);

}  // namespace foretrace::work
