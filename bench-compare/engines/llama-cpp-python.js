// llama.cpp compiled on this machine, through llama-cpp-python's plain bindings: only llama_decode on batches and an argmax.

import { STEP_TOKENS } from '../engine.js';
import { missingModules, runPython } from './python.js';

const program = `
import ctypes
import llama_cpp as llama
import numpy as np

silence = llama.llama_log_callback(lambda level, text, data: None)
llama.llama_log_set(silence, None)
llama.llama_backend_init()
model_options = llama.llama_model_default_params()
model_options.n_gpu_layers = 0
model = llama.llama_model_load_from_file(setup['modelPath'].encode(), model_options)
if not model:
    raise RuntimeError('llama.cpp does not load ' + setup['modelPath'])
options = llama.llama_context_default_params()
options.n_ctx = streams * setup['contextTokens']
options.n_batch = options.n_ubatch = step_tokens
options.n_seq_max = streams
options.n_threads = options.n_threads_batch = threads
context = llama.llama_init_from_model(model, options)
if not context:
    raise RuntimeError('llama.cpp makes no context of %d tokens' % options.n_ctx)
vocab_size = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
memory = llama.llama_get_memory(context)
batch = llama.llama_batch_init(step_tokens, 0, 1)

def decode(entries):
    """Entries: stream, position, token, whether its logits are wanted. Gives the likeliest token of those."""
    batch.n_tokens = len(entries)
    for i, (stream, position, token, wanted) in enumerate(entries):
        batch.token[i], batch.pos[i], batch.logits[i] = token, position, wanted
        batch.n_seq_id[i], batch.seq_id[i][0] = 1, stream
    if llama.llama_decode(context, batch) != 0:
        raise RuntimeError('llama_decode failed')
    chosen = {}
    for i, (stream, _, _, wanted) in enumerate(entries):
        if wanted:
            logits = llama.llama_get_logits_ith(context, i)
            chosen[stream] = int(np.argmax(np.ctypeslib.as_array(logits, shape=(vocab_size,))))
    return chosen

def answers(prompts, count):
    llama.llama_memory_clear(memory, True)
    timing, latest = Timing(), {}
    def step(entries):
        chosen = decode(entries)
        at = now()
        for stream, token in chosen.items():
            timing.add(stream, token, at)
        latest.update(chosen)
    pending = [(s, p, token, p == len(ids) - 1) for s, ids in enumerate(prompts) for p, token in enumerate(ids)]
    for start in range(0, len(pending), step_tokens):
        step(pending[start:start + step_tokens])
    for n in range(count - 1):
        step([(s, len(ids) + n, latest[s], True) for s, ids in enumerate(prompts)])
    return timing

timings = [answers(round['prompts'], round['answerTokens']) for round in setup['rounds']]
finish(llama.__version__, llama.llama_print_system_info().decode().strip(), timings)
`;

/** @type {import('../engine.js').Engine} */
export const llamaCppPython = {
  label: 'llama.cpp (llama-cpp-python)',
  missing: (python) => missingModules(python, ['llama_cpp', 'numpy'], 'llama-cpp-python'),
  run: (setup, rounds) => runPython(program, setup, { rounds, stepTokens: STEP_TOKENS }),
};
