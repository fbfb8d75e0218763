// A small pool for tests of the server: the embedded model on an engine in this process, always loaded.

import type { EngineOptions } from '../../src/engine/engine.ts';
import { LocalEngine } from '../../src/engine/local-engine.ts';
import type { AcquireResult, ModelEntry, ModelPool } from '../../src/pool/model-pool.ts';
import type { ServedModel } from '../../src/pool/served-model.ts';
import { chatTemplate } from '../../src/text/chat-template.ts';
import { embeddedModelPath } from './embedded-model.ts';
import { embeddedModel, lendBackend } from './lent-backends.ts';

export interface EmbeddedPool extends ModelPool {
  readonly engine: LocalEngine;
  readonly model: ServedModel;
  /** Leases not given back. */
  readonly leases: number;
}

export interface EmbeddedPoolOptions
  extends Partial<Pick<EngineOptions, 'blockCount' | 'maxBatchSize' | 'slots'>> {
  /** Awaited before each lease: a model that takes time to load. */
  readonly loading?: () => Promise<void>;
  /** Serves two more, the same to all appearances: `embedder`, which was made for vectors, and `ranker`, which has none. */
  readonly embedders?: boolean;
  /** Says that it serves without batching. */
  readonly direct?: boolean;
  /** As if it were trained to fill gaps. */
  readonly fillInMiddle?: ServedModel['fillInMiddle'];
  /** In place of its own. */
  readonly template?: string;
  /** What its files would say of sampling. */
  readonly sampling?: ServedModel['sampling'];
}

/** Serves `demo`, alias `default`, and `plain`, the same without a chat template. */
export async function embeddedPool(options: EmbeddedPoolOptions = {}): Promise<EmbeddedPool> {
  const { blockCount = 512, maxBatchSize } = options;
  const { spec, tokenizer, pooling } = embeddedModel;
  const template =
    options.template === undefined
      ? embeddedModel.template
      : chatTemplate({ template: options.template, specialTokens: {} });
  const engine = new LocalEngine(await lendBackend(blockCount), {
    blockCount,
    budget: { kind: 'fixed', maxStepTokens: 256 },
    vocabSize: spec.vocabSize,
    contextLength: spec.contextLength,
    endIds: [...tokenizer.eosIds],
    ...(maxBatchSize === undefined ? {} : { maxBatchSize }),
    slots: options.slots,
  });
  engine.engine.identify('demo', { model: 'embedded', adapters: [] });
  const model = {
    name: 'demo',
    path: embeddedModelPath,
    spec,
    tokenizer,
    template,
    pooling,
    fillInMiddle: options.fillInMiddle,
    sampling: options.sampling,
    engine,
    blockCount,
    direct: options.direct === true,
  };
  const plain = { ...model, name: 'plain', template: undefined };
  const embedder: ServedModel = {
    ...model,
    name: 'embedder',
    pooling: { possible: true, pooling: 'mean', declared: true },
  };
  const ranker: ServedModel = {
    ...model,
    name: 'ranker',
    pooling: { possible: false, problem: 'ranks in a way of its own' },
  };
  const models = [model, plain, ...(options.embedders === true ? [embedder, ranker] : [])];
  let leases = 0;
  const entryOf = ({ name, path }: ServedModel): ModelEntry => ({
    name,
    aliases: name === 'demo' ? ['default'] : [],
    path,
    state: 'loaded',
    pinned: false,
    createdSeconds: 1_700_000_000,
    busy: leases,
  });
  const acquire = async (name: string | undefined): Promise<AcquireResult> => {
    await options.loading?.();
    leases++;
    let held = true;
    const release = () => {
      if (held) leases--;
      held = false;
    };
    return { ok: true, lease: { model: models.find((one) => one.name === name) ?? model, release } };
  };
  return {
    memoryBytes: 2 ** 30,
    engine,
    model,
    get leases() {
      return leases;
    },
    list: () => models.map(entryOf),
    loaded: () => [model],
    acquire,
    load: acquire,
    unload: async () => leases === 0,
    close: () => engine.close(),
  };
}
