"""ONNX graphs of the encoders that encoders.py measures, in the operators that the peers fuse best.

Two forms of a transformer: "plain" (MatMul, Add, Softmax, LayerNormalization, Gelu: what exporters write; OpenVINO
and ONNX Runtime fuse it at load) and "fused" (com.microsoft Attention, SkipLayerNormalization, BiasGelu: the form of
onnxruntime.transformers.optimizer). Convolutions carry their folded batch norm as bias. Weights are those of a
safetensors folder, or random.
"""
import json
import math
import pathlib

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save_model

MS = "com.microsoft"


class Graph:
    """Nodes and weights under construction; values are names."""

    def __init__(self):
        self.nodes, self.weights, self.count = [], [], 0

    def node(self, op, inputs, domain="", **attributes):
        self.count += 1
        name = f"{op}_{self.count}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, domain=domain, **attributes))
        return name

    def weight(self, array):
        self.count += 1
        name = f"w_{self.count}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def save(self, path, inputs, output):
        values = [helper.make_tensor_value_info(n, t, shape) for n, t, shape in inputs]
        result = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
        graph = helper.make_graph(self.nodes, "encoder", values, result, self.weights)
        domains = [helper.make_opsetid("", 20), helper.make_opsetid(MS, 1)]
        save_model(helper.make_model(graph, opset_imports=domains, ir_version=10), path)


class RandomWeights:
    """Matrices of a standard deviation that keeps values in range; biases zero, norms one."""

    def __init__(self, seed=1):
        self.rng = np.random.default_rng(seed)

    def matrix(self, name, shape):
        return self.rng.standard_normal(shape, np.float32) * np.float32(1 / math.sqrt(np.prod(shape[1:])))

    def bias(self, name, n):
        return np.zeros(n, np.float32)

    def norm(self, name, n):
        return np.ones(n, np.float32)


class FileWeights:
    """The tensors of one safetensors file, f32."""

    def __init__(self, path):
        from safetensors.numpy import load_file
        self.tensors = load_file(path)

    def matrix(self, name, shape):
        assert self.tensors[name].shape == tuple(shape), name
        return self.tensors[name]

    def bias(self, name, n):
        return self.matrix(name, (n,))

    norm = bias


class Transformer:
    """Blocks shared by BERT and ViT: rows [batch, seq, hidden]."""

    def __init__(self, weights, hidden, inner, heads, eps, fused):
        self.g, self.w, self.fused = Graph(), weights, fused
        self.hidden, self.inner, self.heads, self.eps = hidden, inner, heads, eps

    def linear(self, x, name, n, k, bias=True):
        y = self.g.node("MatMul", [x, self.g.weight(self.w.matrix(name + ".weight", (n, k)).T)])
        return self.g.node("Add", [y, self.g.weight(self.w.bias(name + ".bias", n))]) if bias else y

    def norm(self, x, name, skip=None):
        g, n = self.g, self.hidden
        scale, bias = g.weight(self.w.norm(name + ".weight", n)), g.weight(self.w.bias(name + ".bias", n))
        if skip is not None and self.fused:
            return g.node("SkipLayerNormalization", [x, skip, scale, bias], MS, epsilon=self.eps)
        if skip is not None:
            x = g.node("Add", [x, skip])
        return g.node("LayerNormalization", [x, scale, bias], axis=-1, epsilon=self.eps)

    def attention(self, x, names):
        """The heads of x side by side, without the output projection."""
        g, n, size = self.g, self.hidden, self.hidden // self.heads
        if self.fused:
            matrix = np.concatenate([self.w.matrix(name + ".weight", (n, n)).T for name in names], 1)
            bias = np.concatenate([self.w.bias(name + ".bias", n) for name in names])
            return g.node("Attention", [x, g.weight(matrix), g.weight(bias)], MS, num_heads=self.heads)
        shape = g.weight(np.array([0, 0, self.heads, size], np.int64))

        def heads(name, order):
            return g.node("Transpose", [g.node("Reshape", [self.linear(x, name, n, n), shape])], perm=order)

        q, k, v = heads(names[0], [0, 2, 1, 3]), heads(names[1], [0, 2, 3, 1]), heads(names[2], [0, 2, 1, 3])
        scores = g.node("Div", [g.node("MatMul", [q, k]), g.weight(np.float32(math.sqrt(size)))])
        context = g.node("MatMul", [g.node("Softmax", [scores], axis=-1), v])
        rows = g.node("Transpose", [context], perm=[0, 2, 1, 3])
        return g.node("Reshape", [rows, g.weight(np.array([0, 0, n], np.int64))])

    def mlp(self, x, up, down):
        y = self.linear(x, up, self.inner, self.hidden, bias=not self.fused)
        if self.fused:
            y = self.g.node("BiasGelu", [y, self.g.weight(self.w.bias(up + ".bias", self.inner))], MS)
        else:
            y = self.g.node("Gelu", [y])
        return self.linear(y, down, self.hidden, self.inner)


def bert(path, weights, layers, hidden, inner, heads, fused, vocabulary=30522, eps=1e-12):
    """input_ids i64 [batch, seq] to the last hidden state; no padding, so no mask."""
    t = Transformer(weights, hidden, inner, heads, eps, fused)
    g, e = t.g, "embeddings."
    words = weights.matrix(e + "word_embeddings.weight", (vocabulary, hidden))
    words = g.node("Gather", [g.weight(words), "input_ids"])
    table = weights.matrix(e + "position_embeddings.weight", (512, hidden))
    table = table + weights.matrix(e + "token_type_embeddings.weight", (2, hidden))[0]
    one = g.weight(np.array([1], np.int64))
    length = g.node("Slice", [g.node("Shape", ["input_ids"]), one, g.weight(np.array([2], np.int64))])
    positions = g.node("Slice", [g.weight(table), g.weight(np.array([0], np.int64)), length])
    x = t.norm(g.node("Add", [words, positions]), e + "LayerNorm")
    for i in range(layers):
        p = f"encoder.layer.{i}."
        y = t.attention(x, [f"{p}attention.self.{n}" for n in ("query", "key", "value")])
        y = t.linear(y, p + "attention.output.dense", hidden, hidden)
        x = t.norm(y, p + "attention.output.LayerNorm", x)
        y = t.mlp(x, p + "intermediate.dense", p + "output.dense")
        x = t.norm(y, p + "output.LayerNorm", x)
    g.save(path, [("input_ids", TensorProto.INT64, ["batch", "seq"])], x)


def vit_base(path, fused):
    """pixels [batch, 3, 224, 224] to the last hidden state of 197 rows."""
    w = RandomWeights()
    t = Transformer(w, 768, 3072, 12, 1e-12, fused)
    g = t.g
    x = g.node("Conv", ["pixels", g.weight(w.matrix("patches", (768, 3, 16, 16))), g.weight(w.bias("patches", 768))],
               kernel_shape=[16, 16], strides=[16, 16])
    x = g.node("Reshape", [x, g.weight(np.array([0, 768, 196], np.int64))])
    x = g.node("Transpose", [x], perm=[0, 2, 1])
    batch = g.node("Slice", [g.node("Shape", ["pixels"])] + [g.weight(np.array([i], np.int64)) for i in (0, 1)])
    shape = g.node("Concat", [batch, g.weight(np.array([1, 768], np.int64))], axis=0)
    token = g.node("Expand", [g.weight(w.matrix("class", (1, 1, 768))), shape])
    x = g.node("Add", [g.node("Concat", [token, x], axis=1), g.weight(w.matrix("positions", (1, 197, 768)))])
    for i in range(12):
        y = t.attention(t.norm(x, f"{i}.before"), [f"{i}.{n}" for n in "qkv"])
        x = g.node("Add", [t.linear(y, f"{i}.o", 768, 768), x])
        x = g.node("Add", [t.mlp(t.norm(x, f"{i}.after"), f"{i}.up", f"{i}.down"), x])
    g.save(path, [("pixels", TensorProto.FLOAT, ["batch", 3, 224, 224])], t.norm(x, "final"))


def resnet_50(path):
    """pixels [batch, 3, 224, 224] to 2048 features; strides in the 3 x 3 convolutions (v1.5)."""
    g, w = Graph(), RandomWeights()

    def conv(x, n, k, size, stride=1, relu=True):
        y = g.node("Conv", [x, g.weight(w.matrix("", (n, k, size, size))), g.weight(w.bias("", n))],
                   kernel_shape=[size, size], strides=[stride, stride], pads=[size // 2] * 4)
        return g.node("Relu", [y]) if relu else y

    x = g.node("MaxPool", [conv("pixels", 64, 3, 7, 2)], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    k = 64
    for stage, depth in enumerate((3, 4, 6, 3)):
        for block in range(depth):
            inner, n, stride = 64 << stage, 256 << stage, 2 if stage and block == 0 else 1
            y = conv(conv(conv(x, inner, k, 1), inner, inner, 3, stride), n, inner, 1, relu=False)
            skip = conv(x, n, k, 1, stride, relu=False) if block == 0 else x
            x, k = g.node("Relu", [g.node("Add", [y, skip])]), n
    x = g.node("Flatten", [g.node("GlobalAveragePool", [x])])
    g.save(path, [("pixels", TensorProto.FLOAT, ["batch", 3, 224, 224])], x)


def write_graphs(model, folder, minilm):
    """Writes the graphs of a model unless they are there; {"plain": path, "fused": path}."""
    paths = {form: pathlib.Path(folder) / f"{model}-{form}.onnx" for form in ("plain", "fused")}
    if model == "resnet-50":
        del paths["fused"]
    for form, path in paths.items():
        if path.exists():
            continue
        fused = form == "fused"
        if model == "minilm":
            c = json.loads((minilm / "config.json").read_text())
            bert(path, FileWeights(minilm / "model.safetensors"), c["num_hidden_layers"], c["hidden_size"],
                 c["intermediate_size"], c["num_attention_heads"], fused, c["vocab_size"], c["layer_norm_eps"])
        elif model == "bert-base":
            bert(path, RandomWeights(), 12, 768, 3072, 12, fused)
        elif model == "vit-base":
            vit_base(path, fused)
        else:
            resnet_50(path)
    return paths
