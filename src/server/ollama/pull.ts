// POST /api/pull: downloads a model from the hub, with its progress as lines of JSON. A client that leaves ends the pull; what
// was downloaded is kept.

import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type PullProgress, pullModel } from '../../pool/download.ts';
import type { ModelPool } from '../../pool/model-pool.ts';
import { type ModelReference, PullError, referenceIn } from '../../pool/model-reference.ts';
import { findModels } from '../../pool/model-registry.ts';
import type { ModelDownloads, ServerContext } from '../context.ts';
import { ApiError, ClientLeft, toApiError } from '../http/errors.ts';
import { jsonLines, SseStream } from '../http/sse.ts';

const LINE_MS = 100;
const POLL_MS = 100;
const LONGEST_POLL_MS = 5000;

interface Pull {
  readonly reference: ModelReference;
  readonly downloads: ModelDownloads;
  readonly pool: ModelPool;
  readonly signal: AbortSignal;
  readonly send: (line: object) => void;
}

export async function pull(
  context: ServerContext,
  { model, stream }: { readonly model: string; readonly stream: boolean },
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { activity, downloads, pool, runningPulls: running, settings } = context;
  const reference = referenceOf(model, downloads);
  const repository = `${reference.owner}/${reference.repo}`;
  if (downloads === undefined)
    throw new ApiError(501, 'this server pulls no models', { code: 'no_downloads' });
  if (running.has(repository)) {
    throw new ApiError(409, `${repository} is being pulled already`, { code: 'pull_running' });
  }
  running.add(repository);
  // A download has no deadline.
  const lifetime = activity.begin(request, reply, Number.POSITIVE_INFINITY);
  const { signal } = lifetime;
  try {
    const work = { reference, downloads, pool, signal };
    if (!stream) {
      await fetchModel({ ...work, send: () => {} });
      return reply.send({ status: 'success' });
    }
    reply.hijack();
    const lines = new SseStream(reply.raw, reply.getHeaders(), settings.keepAliveMs, signal, jsonLines);
    try {
      await fetchModel({ ...work, send: (line) => void lines.send(line) });
      lines.end();
    } catch (error) {
      if (!(error instanceof ClientLeft)) request.log.warn({ err: error, model }, 'pull failed');
      lines.fail({ data: { error: toApiError(explained(error)).message } });
    }
    return reply;
  } catch (error) {
    throw explained(error);
  } finally {
    running.delete(repository);
    lifetime.end();
  }
}

/** A path on the server's machine is nothing that its clients could mean. */
function referenceOf(model: string, downloads: ModelDownloads | undefined): ModelReference {
  const reference = referenceIn(model, downloads?.shortNames);
  if (reference !== undefined) return reference;
  const hint =
    'models come from the Hugging Face hub: name one as hf.co/owner/repo or hf.co/owner/repo:Q4_K_M, or by a short name such as llama3.2:1b';
  const details = { param: 'model', code: 'invalid_value' };
  throw new ApiError(400, `'${model}' cannot be pulled; ${hint}`, details);
}

async function fetchModel({ reference, downloads, pool, signal, send }: Pull): Promise<void> {
  send({ status: 'pulling manifest' });
  const { path } = await pullModel(reference, { ...downloads, signal, onProgress: progressLines(send) });
  const problem = findModels({ paths: [path] })[0]?.problem;
  if (problem !== undefined) throw new PullError(`it is here, but cannot be served: ${problem}`);
  await untilListed(pool, path, true, signal);
  send({ status: 'success' });
}

function progressLines(send: (line: object) => void): (progress: PullProgress) => void {
  let toldMs = Number.NEGATIVE_INFINITY;
  let toldFile: string | undefined;
  return ({ file, fileBytes, fileDoneBytes, checksum }) => {
    const nowMs = performance.now();
    if (file === toldFile && fileDoneBytes < fileBytes && nowMs - toldMs < LINE_MS) return;
    toldMs = nowMs;
    toldFile = file;
    const digest = checksum && `${checksum.kind === 'git' ? 'sha1' : checksum.kind}:${checksum.hex}`;
    send({
      status: `pulling ${file}`,
      ...(digest === undefined ? {} : { digest }),
      total: fileBytes,
      completed: fileDoneBytes,
    });
  };
}

function explained(error: unknown): unknown {
  if (!(error instanceof PullError)) return error;
  const choices = error.choices.map(({ path }) => path).join(', ');
  const message = choices === '' ? error.message : `${error.message}: ${choices}`;
  return new ApiError(502, message, { code: 'pull_failed' });
}

/**
 * Resolves when the pool lists the model at this path, or no longer does, or after a few seconds: the pool looks for models
 * only now and then, and a client that was sent the result relies on it.
 */
export async function untilListed(
  pool: ModelPool,
  path: string,
  isThere: boolean,
  signal?: AbortSignal,
): Promise<void> {
  const endMs = performance.now() + LONGEST_POLL_MS;
  while (performance.now() < endMs && pool.list().some((one) => one.path === path) !== isThere) {
    await sleep(POLL_MS, undefined, signal === undefined ? {} : { signal });
  }
}
