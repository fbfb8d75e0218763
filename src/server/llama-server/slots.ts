// GET /slots: the sequences of a model's running batch, each in a slot. A slot is a number here: where prefixes are saved, that which a
// sequence leaves its own under; otherwise its place in the list.

import type { FastifyRequest } from 'fastify';
import type { EngineStats } from '../../engine/engine.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { ServerContext } from '../context.ts';
import { ApiError } from '../http/errors.ts';
import { callerOf } from '../request/auth.ts';
import { slotCount } from '../request/slot-number.ts';

/** `model` is undefined where it is unloaded: nothing runs. */
export async function slotsOf(
  context: ServerContext,
  model: ServedModel | undefined,
  contextTokens: number,
  request: FastifyRequest,
): Promise<readonly object[]> {
  const { running } = (await model?.engine.stats()) ?? { running: [] };
  const { fail_on_no_slot: mustBeFree } = request.query as Record<string, unknown>;
  const most = context.settings.maxBatchSize;
  if (mustBeFree !== undefined && most !== undefined && running.length >= most) {
    throw new ApiError(503, 'no slot is available', { code: 'no_slot_available' });
  }
  const { admin } = callerOf(request);
  const bySlot = new Map(running.map((sequence, at) => [sequence.slot ?? at, sequence]));
  const count = Math.max(slotCount(context), ...[...bySlot.keys()].map((slot) => slot + 1));
  return Array.from({ length: count }, (_, id) => {
    const sequence = bySlot.get(id);
    return {
      id,
      n_ctx: contextTokens,
      is_processing: sequence !== undefined,
      // How long the sequences of others are is for admins.
      ...(admin && sequence !== undefined ? progressOf(sequence) : {}),
    };
  });
}

function progressOf({ id, tokens, computed }: EngineStats['running'][number]): object {
  return { id_task: id, n_tokens: tokens, n_tokens_computed: computed };
}
