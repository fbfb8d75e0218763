// An engine with tiers below its memory over a model with random weights, and requests to it: what benchmarks of tiers share.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { dummyModel } from '#src/bench/dummy-model.ts';
import { BlockStore } from '#src/block-store/block-store.ts';
import type { ModelIdentity } from '#src/block-store/segments.ts';
import { BLOCK_TOKENS } from '#src/compute/backend.ts';
import { chooseBackend } from '#src/compute/choose-backend.ts';
import { LocalEngine } from '#src/engine/local-engine.ts';
import type { AnswerRequest } from '#src/engine/request.ts';
import { buildSpec } from '#src/model/build-spec.ts';
import { validateSampling } from '#src/sampling/parameters.ts';
import { dummyFrom, print } from './harness.ts';

export interface Opened {
  readonly engine: LocalEngine;
  readonly backend: string;
}

export interface Asked {
  readonly firstMs: number;
  readonly cached: number;
  readonly answer: readonly number[];
}

interface OpenOptions {
  /** Blocks of 32 tokens in memory. */
  readonly blockCount: number;
  /** Undefined where there is no tier at all. */
  readonly hostBytes: number | undefined;
  readonly usesDisk: boolean;
}

const DISK_BYTES = 64 * 1024 ** 3;

export class TierEngines {
  readonly files: ReturnType<typeof dummyModel>;
  readonly spec: ReturnType<typeof buildSpec>;
  readonly choice: ReturnType<typeof chooseBackend>;
  readonly #model: string;
  readonly folder = mkdtempSync(join(tmpdir(), 'chairlift-bench-tiers-'));
  #requests = 0;

  constructor(model: string, layers: number | undefined, backend: string | undefined) {
    const { shape, type } = dummyFrom(model);
    this.#model = model;
    this.files = dummyModel(shape, type, layers);
    this.spec = buildSpec(this.files);
    this.choice = chooseBackend(backend === 'cuda' ? 'cuda' : 'cpu', {});
    process.on('exit', () => rmSync(this.folder, { recursive: true, force: true }));
  }

  /** Blocks that so many tokens take. */
  blocksOf(tokens: number): number {
    return Math.ceil(tokens / BLOCK_TOKENS) + 1;
  }

  #openDisk(model: ModelIdentity): Promise<BlockStore> {
    const options = { folder: this.folder, sizeBytes: DISK_BYTES };
    return BlockStore.open({ ...options, model, warn: (message) => print(message) });
  }

  /** Every engine finds on the disk what those before it have left. */
  async open({ blockCount, hostBytes, usesDisk }: OpenOptions): Promise<Opened> {
    const { spec, files } = this;
    const backend = await this.choice.create(spec, files.weights, { blockCount });
    const engine = new LocalEngine(backend, {
      vocabSize: spec.vocabSize,
      contextLength: spec.contextLength,
      endIds: [],
      blockCount,
      budget: { kind: 'adaptive', targetStepMs: 100, loneStepMs: 400, maxStepTokens: 2048 },
      speculation: false,
      ...(hostBytes === undefined ? {} : { hostBytes }),
      ...(usesDisk ? { openDisk: (model: ModelIdentity) => this.#openDisk(model) } : {}),
    });
    if (hostBytes !== undefined) engine.engine.identify(files.path, { model: this.#model, adapters: [] });
    if (usesDisk) while (engine.engine.stats(0).tiers?.disk === undefined) await pause(5);
    return { engine, backend: backend.device ?? backend.name };
  }

  /** `seed`: of the prompt's tokens. */
  async ask({ engine }: Opened, seed: number, length: number, maxTokens: number): Promise<Asked> {
    const startedMs = performance.now();
    const answer: number[] = [];
    let firstMs = Number.NaN;
    let cached = 0;
    for await (const event of engine.submit(this.#request(seed, length, maxTokens))) {
      if (event.kind === 'token') {
        if (answer.length === 0) firstMs = performance.now() - startedMs;
        answer.push(event.token);
      } else cached = event.cachedTokens;
    }
    return { firstMs, cached, answer };
  }

  /** Ends it, having written down what is in memory alone; how long that took. */
  async end({ engine }: Opened): Promise<number> {
    const startedMs = performance.now();
    engine.engine.end({ code: 'engine-failed', message: 'the benchmark is over' });
    await engine.engine.closeTiers(600_000);
    await engine.close();
    return performance.now() - startedMs;
  }

  #request(seed: number, length: number, maxTokens: number): AnswerRequest {
    const { vocabSize } = this.spec;
    const sampling = validateSampling(
      { temperature: 0, maxTokens, ignoreEos: true },
      { vocabSize, freshSeed: { low: 1, high: 2 } },
    );
    if (!sampling.ok) throw new Error(sampling.problem);
    return {
      id: `${this.#requests++}`,
      prompt: Int32Array.from({ length }, (_, place) => (place * 7919 + seed * 104_729) % vocabSize),
      parameters: sampling.parameters,
      priority: 1,
      salt: '',
      account: `${seed}`,
      enqueuedMs: Date.now(),
    };
  }
}
