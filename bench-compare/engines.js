// All contenders by name, Chairlift first.

import { chairlift } from './engines/chairlift.js';
import { llamaCppPython } from './engines/llama-cpp-python.js';
import { mlx } from './engines/mlx.js';
import { nodeLlamaCpp } from './engines/node-llama-cpp.js';
import { openvino, openvinoF32 } from './engines/openvino.js';

/** @type {Readonly<Record<string, import('./engine.js').Engine>>} */
export const engines = {
  chairlift,
  'node-llama-cpp': nodeLlamaCpp,
  'llama-cpp-python': llamaCppPython,
  openvino,
  'openvino-f32': openvinoF32,
  mlx,
};
