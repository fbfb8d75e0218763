// OpenVINO GenAI's continuous batching on the CPU. It reads the GGUF file itself; prompts go in as token ids. It runs
// twice: with the precision that it chooses (bfloat16 where the CPU has it), and with float32
// over KV cache in F16, which decodes faster on some CPUs.

import { STEP_TOKENS } from '../engine.js';
import { missingModules, runPython } from './python.js';

const program = `
import numpy as np
import openvino as ov
import openvino_genai as genai

BLOCK_TOKENS = 32
scheduler = genai.SchedulerConfig()
scheduler.num_kv_blocks = streams * (setup['contextTokens'] // BLOCK_TOKENS + 2)
scheduler.max_num_batched_tokens = step_tokens
scheduler.max_num_seqs = streams
scheduler.enable_prefix_caching = False
properties = {'INFERENCE_NUM_THREADS': threads, 'PERFORMANCE_HINT': 'LATENCY'}
if setup['precision'] is not None:
    properties['INFERENCE_PRECISION_HINT'] = setup['precision']
    properties['KV_CACHE_PRECISION'] = 'f16'
pipeline = genai.ContinuousBatchingPipeline(setup['modelPath'], scheduler, 'CPU', properties)
requests = 0

def answers(prompts, count):
    global requests
    config = genai.GenerationConfig()
    config.max_new_tokens = config.min_new_tokens = count
    config.ignore_eos = True
    config.do_sample = False
    timing, handles = Timing(), []
    for ids in prompts:
        handles.append(pipeline.add_request(requests, ov.Tensor(np.array([ids], dtype=np.int64)), config))
        requests += 1
    while pipeline.has_non_finished_requests():
        pipeline.step()
        at = now()
        for stream, handle in enumerate(handles):
            if handle.can_read():
                for output in handle.read().values():
                    for token in output.generated_ids:
                        timing.add(stream, token, at)
    return timing

timings = [answers(round['prompts'], round['answerTokens']) for round in setup['rounds']]
core = ov.Core()
build = core.get_property('CPU', 'FULL_DEVICE_NAME') + ': ' + ', '.join(core.get_property('CPU', 'OPTIMIZATION_CAPABILITIES'))
finish(genai.__version__, build, timings)
`;

/**
 * @param {string} label
 * @param {string | null} precision null leaves the choice to OpenVINO
 * @returns {import('../engine.js').Engine}
 */
const contender = (label, precision) => ({
  label,
  missing: (python) => missingModules(python, ['openvino_genai', 'numpy'], 'openvino-genai'),
  run: (setup, rounds) => runPython(program, setup, { rounds, precision, stepTokens: STEP_TOKENS }),
});

export const openvino = contender('OpenVINO GenAI', null);
export const openvinoF32 = contender('OpenVINO GenAI, f32', 'f32');
