// Serves one completion request, whatever its protocol, cheapest checks first: parse the body, ask the limits of the key and
// the queue, wait for the model, and answer; or have an upstream answer, where the model is elsewhere or would take too long.

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { ServerContext } from '../context.ts';
import { warn } from '../http/errors.ts';
import type { SamplingBody } from '../openai/schemas/sampling.ts';
import { acquireModel } from '../request/find-model.ts';
import { type AdmittedScope, withAdmission, withModel, withQueueEntry } from '../request/request-scope.ts';
import { earlyDemand } from './answer-terms.ts';
import type { BackgroundRequest } from './background-request.ts';
import { type CompletionRequest, readCompletion } from './completion-request.ts';
import { acquireOrFallBack, expectsLongWait, FallBack, reasonOf } from './fallback.ts';
import { serveLocal } from './local-completion.ts';
import type { Protocol } from './protocol.ts';
import {
  FallbackFailed,
  type FallbackTarget,
  fallbackOf,
  type RemoteTarget,
  serveRemote,
  targetOf,
} from './remote-completion.ts';

export interface ServeOptions {
  readonly forceLow: boolean;
  readonly background?: BackgroundRequest | undefined;
}

export async function serveCompletion<Schema extends z.ZodObject, Body extends SamplingBody>(
  context: ServerContext,
  protocol: Protocol<Schema, Body>,
  request: FastifyRequest,
  reply: FastifyReply,
  options: ServeOptions,
): Promise<FastifyReply> {
  const completion = await readCompletion(context, protocol, request, reply, options);
  const { inputs, maxTokens } = completion;
  const demand = earlyDemand(completion, inputs.length, maxTokens);
  const target = targetOf(completion);
  const fallback = target === undefined ? fallbackOf(completion) : undefined;
  try {
    await withAdmission(completion, demand, (admitted) =>
      target === undefined
        ? serveHere(completion, admitted, fallback)
        : serveElsewhere(completion, admitted, target),
    );
  } catch (error) {
    if (!(error instanceof FallbackFailed)) throw error;
    warn(reply, [`waited for its model: ${error.message}`]);
    await withAdmission(completion, demand, (admitted) => serveHere(completion, admitted, undefined));
  }
  return reply;
}

function serveElsewhere(
  completion: CompletionRequest,
  admitted: AdmittedScope,
  target: RemoteTarget,
): Promise<void> {
  const { inputs, choices } = completion;
  const options = { modelName: target.model.name, sequences: inputs.length * choices };
  return withQueueEntry(admitted, options, async (scope) => {
    await completion.background?.queued?.(target.model.name, completion.reply);
    await serveRemote(completion, scope, target);
  });
}

async function serveHere(
  completion: CompletionRequest,
  admitted: AdmittedScope,
  fallback: FallbackTarget | undefined,
): Promise<void> {
  const { context, inputs, choices, entry, idleMs, caller } = completion;
  const options = { modelName: entry.name, sequences: inputs.length * choices, idleMs };
  const { signal } = admitted;
  try {
    if (fallback?.waitMs !== undefined && (await expectsLongWait(completion, fallback.waitMs))) {
      throw new FallBack('long-wait');
    }
    await withQueueEntry(admitted, options, async (queued) => {
      await completion.background?.queued?.(entry.name, completion.reply);
      const acquire = () =>
        fallback === undefined
          ? acquireModel(context.pool, entry.name, signal, caller.background)
          : acquireOrFallBack(context.pool, entry.name, signal, caller.background, fallback.waitMs);
      await withModel(queued, options, acquire, (scope) => serveLocal(completion, scope));
    });
  } catch (error) {
    const reason = fallback && reasonOf(error);
    if (fallback === undefined || reason === undefined) throw error;
    const target = { ...fallback.target, fallback: { model: entry.name, reason } };
    await serveElsewhere(completion, admitted, target);
  }
}
