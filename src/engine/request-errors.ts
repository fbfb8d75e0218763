// How requests end that never ran, or ran no further: as events like any other.

import type { SampleError } from '../sampling/sample-row.ts';
import { type EngineRequest, type FinishEvent, isAnswered, type RequestError } from './request.ts';

export function failedEvent(request: EngineRequest, error: RequestError): FinishEvent {
  return { ...cancelledEvent(request), reason: 'error', error };
}

/** Of a request that no engine has. */
export function cancelledEvent(request: EngineRequest): FinishEvent {
  return {
    kind: 'finish',
    id: request.id,
    reason: 'cancelled',
    // Of what an engine had computed that is gone nothing is known, unless there are tokens.
    promptTokens: request.answer === undefined || request.answer.length === 0 ? 0 : request.prompt.length,
    cachedTokens: 0,
    generatedTokens: request.answer?.length ?? 0,
  };
}

export function samplingError(code: SampleError): RequestError {
  const message =
    code === 'numeric-error'
      ? 'the model computed something that is not a number'
      : 'every token is excluded: the mask, bias or stop settings leave nothing to sample';
  return { code, message };
}

export const drainingError: RequestError = {
  code: 'draining',
  message: 'the engine is shutting down and takes no new requests',
};

export const supersededError: RequestError = {
  code: 'superseded',
  message:
    'the client has come back to this request by another connection, which gets the rest of the answer',
};

export const notContinued: RequestError = {
  code: 'invalid',
  message: 'the model embeds texts and cannot continue them',
};

export const notSeeing: RequestError = {
  code: 'invalid',
  message: 'the model does not read images',
};

export const notPrepared: RequestError = {
  code: 'invalid',
  message: 'the pictures of the request are not prepared',
};

export const notScored: RequestError = {
  code: 'invalid',
  message: 'the tokens of this model see each other where there are images: such prompts are not scored',
};

export const unloadedError: RequestError = { code: 'engine-failed', message: 'the model was unloaded' };

/** Of a sequence that cannot run even alone, for want of memory that the budget counts on. */
export function deviceFullError(needed: number, capacity: number): RequestError {
  const message = `the GPU has no memory for ${needed} KV blocks, but for ${capacity}: others use more of it than --gpu-memory leaves them`;
  return { code: 'engine-failed', message };
}

/** Why a prompt cannot be served by a model of this size, if it cannot; one that is answered must leave room for that. */
export function promptError(
  request: EngineRequest,
  contextLength: number,
  vocabSize: number,
): RequestError | undefined {
  const { prompt } = request;
  if (prompt.length === 0)
    return { code: 'invalid', message: 'the prompt is empty; give at least one token' };
  const unknown = prompt.find((token) => token < 0 || token >= vocabSize);
  if (unknown !== undefined) return { code: 'invalid', message: `${unknown} is no token of this model` };
  const answered = isAnswered(request);
  if (prompt.length < contextLength + (answered ? 0 : 1)) return undefined;
  const problem = answered ? 'leaves no room for an answer' : 'is shorter';
  const message = `the prompt has ${prompt.length} tokens; the context of ${contextLength} ${problem}`;
  return { code: 'too-long', message };
}
