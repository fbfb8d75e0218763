// A server over a tiny model that sees, whose engine keeps what it was asked for and answers by the text alone.

import { pino } from 'pino';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import type { EngineClient } from '../../src/engine/engine-client.ts';
import { LocalEngine } from '../../src/engine/local-engine.ts';
import type { EngineRequest } from '../../src/engine/request.ts';
import { openLocalModel } from '../../src/pool/local-model.ts';
import type { AcquireResult, ModelEntry, ModelPool } from '../../src/pool/model-pool.ts';
import type { ServedModel } from '../../src/pool/served-model.ts';
import { createServer } from '../../src/server/create-server.ts';
import { Limiter } from '../../src/server/limits/limiter.ts';
import { defaultSettings } from '../../src/server/settings.ts';
import type { TestServerOptions } from './test-server.ts';
import { testdata } from './testdata.ts';

const BLOCKS = 128;

export type SeeingServer = Awaited<ReturnType<typeof seeingServer>>;

/** Serves `eyes`, and `blind`, the same model without its tower. */
export async function seeingServer(
  { settings, pool: _, ...deps }: TestServerOptions = {},
  family = 'qwen3_vl',
) {
  const path = testdata('vision', family);
  const local = openLocalModel(path, { images: true });
  const text = openLocalModel(path);
  const backend = await createReferenceBackend(text.spec, text.weights, {
    blockCount: BLOCKS,
    stateSlots: 4,
  });
  const { tokenizer, template, pooling } = local;
  const engine = new LocalEngine(backend, {
    blockCount: BLOCKS,
    budget: { kind: 'fixed', maxStepTokens: 256 },
    vocabSize: text.spec.vocabSize,
    contextLength: text.spec.contextLength,
    endIds: [...tokenizer.eosIds],
  });
  const requests: EngineRequest[] = [];
  const recording: EngineClient = {
    get failure() {
      return engine.failure;
    },
    monitor: engine.monitor,
    submit(request) {
      requests.push(request);
      const { images: _images, ...rest } = request;
      return engine.submit(rest as EngineRequest);
    },
    cancel: (id) => engine.cancel(id),
    stats: () => engine.stats(),
    setVocabulary: (vocabulary) => engine.setVocabulary(vocabulary),
    drain: () => engine.drain(),
    close: () => engine.close(),
  };
  const common = { path, tokenizer, template, pooling, engine: recording, blockCount: BLOCKS, direct: false };
  const models: ServedModel[] = [
    { ...common, name: 'eyes', spec: local.spec },
    { ...common, name: 'blind', spec: text.spec },
  ];
  local.close();
  text.close();
  const entryOf = ({ name, spec }: ServedModel): ModelEntry => ({
    name,
    aliases: [],
    path,
    state: 'loaded',
    pinned: false,
    createdSeconds: 1_700_000_000,
    busy: 0,
    ...(spec.vision === undefined ? {} : { sees: true }),
  });
  const acquire = async (name: string | undefined): Promise<AcquireResult> => {
    const model = models.find((one) => one.name === name) ?? (models[0] as ServedModel);
    return { ok: true, lease: { model, release: () => {} } };
  };
  const pool: ModelPool = {
    memoryBytes: 2 ** 30,
    list: () => models.map(entryOf),
    loaded: () => models,
    acquire,
    load: acquire,
    unload: async () => false,
    close: () => engine.close(),
  };
  const app = createServer({
    limiter: new Limiter(),
    version: '0.0.0-test',
    ...deps,
    pool,
    logger: pino({ level: 'silent' }),
    settings: { ...defaultSettings, ...settings },
  });
  return {
    app,
    requests,
    tokenizer,
    async post(url: string, body: object) {
      const answer = await app.inject({ method: 'POST', url, payload: body });
      return { status: answer.statusCode, headers: answer.headers, body: answer.json() };
    },
    async close() {
      await app.drain(0);
      await app.close();
      await pool.close(0);
    },
  };
}
