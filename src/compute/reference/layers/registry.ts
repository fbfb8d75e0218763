// The forward pass of each kind of layer.

import type { BodySpec } from '../../../model/spec.ts';
import type { RunBody } from '../step-context.ts';
import { runAttention } from './attention.ts';
import { runGatedDeltaNet } from './gated-delta-net.ts';
import { runLaurel } from './laurel.ts';
import { runMamba2 } from './mamba2.ts';
import { runMla } from './mla.ts';
import { runMlp } from './mlp.ts';
import { runMoe } from './moe.ts';
import { runPerLayerInput } from './per-layer-inputs.ts';
import { runShortConv } from './short-conv.ts';

const runs: { readonly [Kind in BodySpec['kind']]: RunBody<Extract<BodySpec, { readonly kind: Kind }>> } = {
  attention: runAttention,
  'gated-delta-net': runGatedDeltaNet,
  laurel: runLaurel,
  mamba2: runMamba2,
  mla: runMla,
  mlp: runMlp,
  moe: runMoe,
  'per-layer-input': runPerLayerInput,
  'short-conv': runShortConv,
};

export const runBody: RunBody<BodySpec> = (context, body, input, stream) =>
  (runs[body.kind] as RunBody<BodySpec>)(context, body, input, stream);
