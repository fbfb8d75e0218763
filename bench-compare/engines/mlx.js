// mlx-lm's batch generator on MLX's CPU backend. MLX reads the GGUF file's Q4_0 and Q8_0 tensors as they are, in groups
// of 32; they go into mlx-lm's own model of that architecture.

import { STEP_TOKENS } from '../engine.js';
import { missingModules, runPython } from './python.js';

const program = `
import importlib, re
import mlx.core as mx
import mlx.nn as nn
import mlx_lm
from mlx_lm.generate import BatchGenerator

weights, metadata = mx.load(setup['modelPath'], return_metadata=True)
architecture = metadata['general.architecture']
if architecture not in ('llama', 'qwen2'):
    raise RuntimeError('this trial knows no ' + architecture + ' models')

def number(key):
    value = metadata[architecture + '.' + key].item()
    return int(value) if float(value).is_integer() else value

NAMES = {
    'token_embd': 'model.embed_tokens', 'output_norm': 'model.norm', 'output': 'lm_head',
    'attn_norm': 'input_layernorm', 'ffn_norm': 'post_attention_layernorm',
    'attn_q': 'self_attn.q_proj', 'attn_k': 'self_attn.k_proj', 'attn_v': 'self_attn.v_proj',
    'attn_output': 'self_attn.o_proj', 'ffn_gate': 'mlp.gate_proj', 'ffn_up': 'mlp.up_proj', 'ffn_down': 'mlp.down_proj',
}

def translated(name):
    layer, part, kind = re.fullmatch(r'(?:blk\\.(\\d+)\\.)?(\\w+)\\.(\\w+)', name).groups()
    return (f'model.layers.{layer}.' if layer else '') + NAMES[part] + '.' + kind

# Float32 throughout: on the CPU MLX multiplies by far the fastest so.
def widened(value):
    return value if value.dtype == mx.uint32 else value.astype(mx.float32)

weights = {translated(name): widened(value) for name, value in weights.items() if not name.startswith('rope_freqs')}
family = importlib.import_module('mlx_lm.models.' + architecture)
model = family.Model(family.ModelArgs.from_dict({
    'model_type': architecture,
    'hidden_size': number('embedding_length'),
    'num_hidden_layers': number('block_count'),
    'intermediate_size': number('feed_forward_length'),
    'num_attention_heads': number('attention.head_count'),
    'num_key_value_heads': number('attention.head_count_kv'),
    'rms_norm_eps': number('attention.layer_norm_rms_epsilon'),
    'vocab_size': weights['model.embed_tokens.weight'].shape[0],
    'rope_theta': float(number('rope.freq_base')),
    # GGUF keeps llama's queries and keys in the order of neighbouring pairs.
    'rope_traditional': architecture == 'llama',
    'tie_word_embeddings': 'lm_head.weight' not in weights,
}))
GROUP = 32
quantized = {name[:-len('.scales')] for name in weights if name.endswith('.scales')}
sizes = {32 * weights[name + '.weight'].shape[1] // (GROUP * weights[name + '.scales'].shape[1]) for name in quantized}
if len(sizes) > 1:
    raise RuntimeError('MLX reads tensors of several sizes from this file, which this trial does not')
bits = sizes.pop() if sizes else 32
if quantized:
    nn.quantize(model, GROUP, bits, class_predicate=lambda path, module: path in quantized)
model.load_weights(list(weights.items()))
model.eval()
mx.eval(model.parameters())

def answers(prompts, count):
    generator = BatchGenerator(
        model, max_tokens=count, completion_batch_size=streams, prefill_batch_size=streams,
        prefill_step_size=max(1, step_tokens // streams))
    timing = Timing()
    stream_of = {uid: stream for stream, uid in enumerate(generator.insert(prompts))}
    left = streams
    while left > 0:
        responses = generator.next_generated()
        at = now()
        for response in responses:
            timing.add(stream_of[response.uid], response.token, at)
            left -= response.finish_reason is not None
    generator.close()
    return timing

timings = [answers(round['prompts'], round['answerTokens']) for round in setup['rounds']]
finish(mlx_lm.__version__ + ', MLX ' + mx.__version__, f'{mx.default_device()}, weights of {bits} bit, float32', timings)
`;

/** @type {import('../engine.js').Engine} */
export const mlx = {
  label: 'mlx-lm',
  missing: (python) => missingModules(python, ['mlx.core', 'mlx_lm'], "'mlx[cpu]' mlx-lm"),
  run: (setup, rounds) => runPython(program, setup, { rounds, stepTokens: STEP_TOKENS }),
};
