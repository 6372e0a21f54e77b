"""Encoders: `rlx bench` against ONNX Runtime and OpenVINO, in turn, a few rounds, so that all see the same machine.

  ~/.cache/rlx-peers/venv/bin/python bench/peers/encoders.py [--rlx build/release/rlx] [--only minilm] [--rounds 5]

Prints for each case the median milliseconds of every engine and the ratio of RLX to the best peer of that precision
(above 1: RLX is faster; the median over rounds, [least..most]). Peers get their best form: of the two graphs
(encoder_graphs.py) the faster one, no padding, no mask, inputs and outputs in place. Needs numpy, onnx, onnxruntime;
openvino, tokenizers and safetensors when there (`pip install` into the environment of peers.sh).
--check compares the vectors of MiniLM with those of `rlx embed`.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
import onnxruntime as ort

from encoder_graphs import write_graphs

try:
    import openvino
except ImportError:
    openvino = None

CACHE = pathlib.Path.home() / ".cache/rlx-peers"
MINILM = CACHE / "models/all-minilm-l6-v2"
# model, batch, tokens of a sequence (0: images)
CASES = [("minilm", 1, 16), ("minilm", 1, 128), ("minilm", 32, 128), ("bert-base", 1, 128), ("bert-base", 8, 128),
         ("vit-base", 1, 0), ("vit-base", 8, 0), ("resnet-50", 1, 0), ("resnet-50", 8, 0)]


def ort_options(threads):
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    return options


def quantized(path):
    """The dynamically quantised form: int8 weights per column, as its users make it."""
    from onnx import TensorProto
    from onnxruntime.quantization import QuantType, quantize_dynamic
    out = path.with_suffix(".int8.onnx")
    if not out.exists():
        quantize_dynamic(path, out, weight_type=QuantType.QInt8, per_channel=True,
                         op_types_to_quantize=["MatMul", "Attention"],
                         extra_options={"DefaultTensorType": TensorProto.FLOAT})
    return out


class OnnxRuntime:
    def __init__(self, path, feed, threads):
        self.feed = feed
        self.session = ort.InferenceSession(path, ort_options(threads), providers=["CPUExecutionProvider"])

    def run(self):
        return self.session.run(None, self.feed)[0]


class OpenVino:
    def __init__(self, path, feed, threads, precision):
        core = openvino.Core()
        model = core.read_model(path)
        model.reshape({name: list(value.shape) for name, value in feed.items()})  # static shapes are its fast case
        self.request = core.compile_model(model, "CPU", {
            "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": precision, "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY"}).create_infer_request()
        for name, value in feed.items():
            self.request.set_tensor(name, openvino.Tensor(value))

    def run(self):
        self.request.infer()
        return self.request.get_output_tensor(0).data


def make_feed(model, batch, seq):
    rng = np.random.default_rng(7)
    if seq:
        return {"input_ids": rng.integers(1000, 30000, (batch, seq), np.int64)}
    return {"pixels": rng.standard_normal((batch, 3, 224, 224), np.float32)}


def make_peers(model, feed, threads, folder):
    """{precision: {name: engine}}"""
    graphs = write_graphs(model, folder, MINILM)
    peers = {"f32": {}, "bf16": {}, "int8": {}}
    for form, path in graphs.items():
        peers["f32"][f"ort-{form}"] = OnnxRuntime(path, feed, threads)
        if model != "resnet-50":
            peers["int8"][f"ort-{form}"] = OnnxRuntime(quantized(path), feed, threads)
    if openvino:
        for precision, hint in (("f32", "f32"), ("bf16", "bf16")):
            peers[precision]["openvino"] = OpenVino(graphs["plain"], feed, threads, hint)
        if model != "resnet-50":
            peers["int8"]["openvino"] = OpenVino(quantized(graphs["plain"]), feed, threads, "f32")
    return peers


def measure(engine, seconds):
    """Median milliseconds of runs that fill so many seconds, at least three."""
    engine.run()
    times, begin = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        engine.run()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def measure_rlx(args, model, batch, seq, mode):
    what = ["-m", str(MINILM)] if model == "minilm" else ["--random", model]
    rows = batch * (seq or 197) * (1 if model == "minilm" else 8)
    repetitions = max(5, min(200, 40000 // rows))
    command = [args.rlx, "bench", *what, "--batch", str(batch), *(["--seq", str(seq)] if seq else []), "-t",
               str(args.threads), "--activations", mode, "-r", str(repetitions), "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)[0]["median_ms"]


def bench_case(args, model, batch, seq):
    """Rounds of all engines in turn, the order turning from round to round."""
    feed = make_feed(model, batch, seq)
    peers = make_peers(model, feed, args.threads, args.folder)
    modes = [m for m in args.modes.split(",") if not (m == "int8" and model == "resnet-50")]
    jobs = [(mode, "rlx", lambda mode=mode: measure_rlx(args, model, batch, seq, mode)) for mode in modes]
    jobs += [(p, name, lambda e=engine: measure(e, args.seconds))
             for p, engines in peers.items() for name, engine in engines.items()]
    times = {(precision, name): [] for precision, name, _ in jobs}
    for r in range(args.rounds):
        for precision, name, job in jobs[::-1] if r % 2 else jobs:
            times[precision, name].append(job())
    print_case(f"{model} b{batch}" + (f" s{seq}" if seq else ""), modes, times)


def print_case(title, modes, times):
    for mode in modes:
        # The bar for the fast modes: the best bf16 or int8 peer.
        rivals = {key: t for key, t in times.items()
                  if key[1] != "rlx" and (key[0] == "f32") == (mode == "f32")} or {
                      key: t for key, t in times.items() if key[1] != "rlx"}
        best = min(rivals, key=lambda key: statistics.median(rivals[key]))
        ratios = [peer / own for own, peer in zip(times[mode, "rlx"], rivals[best])]
        print(f"{title:18} {mode:5} rlx {statistics.median(times[mode, 'rlx']):9.3f} ms   ratio "
              f"{statistics.median(ratios):5.2f} [{min(ratios):.2f}..{max(ratios):.2f}] to {best[1]} {best[0]}   "
              + "  ".join(f"{n} {p} {statistics.median(t):.3f}" for (p, n), t in rivals.items()), flush=True)


def check_minilm(args):
    """Cosines of the vectors of rlx embed, in each mode, to those of ONNX Runtime in f32."""
    from tokenizers import Tokenizer
    texts = ["A cat sits on the window sill.", "Interest rates rose again in the third quarter, by a quarter point.",
             "def main(): return 0", "Wie spät ist es? " * 12]
    tokenizer = Tokenizer.from_file(str(MINILM / "tokenizer.json"))
    tokenizer.no_padding()
    path = write_graphs("minilm", args.folder, MINILM)["plain"]
    for mode in args.modes.split(","):
        lines = subprocess.run([args.rlx, "embed", str(MINILM), *texts, "--activations", mode], check=True,
                               capture_output=True, text=True).stdout.splitlines()
        cosines = []
        for text, line in zip(texts, lines, strict=True):
            ids = np.array([tokenizer.encode(text).ids[:128]], np.int64)
            want = OnnxRuntime(path, {"input_ids": ids}, 1).run()[0].mean(0)
            got = np.array(json.loads(line))
            cosines.append(float(want @ got / np.linalg.norm(want) / np.linalg.norm(got)))
        print(f"MiniLM {mode}: cosine to ONNX Runtime f32 at least {min(cosines):.7f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rlx", default="build/release/rlx")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.7, help="of each peer and round")
    parser.add_argument("--modes", default="f32,bf16,int8")
    parser.add_argument("--only", default="", help="cases whose name contains this, as minilm or 'resnet-50 b8'")
    parser.add_argument("--folder", type=pathlib.Path, default=CACHE / "encoders", help="for the graphs")
    parser.add_argument("--check", action="store_true", help="agreement of MiniLM only")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.check:
        return check_minilm(args)
    for model, batch, seq in CASES:
        if args.only in f"{model} b{batch}" + (f" s{seq}" if seq else ""):
            bench_case(args, model, batch, seq)


if __name__ == "__main__":
    main()
