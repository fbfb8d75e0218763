// The models in a worker's status: which there are, by content, and how busy each is.

import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { EngineClient } from '../../engine/engine-client.ts';
import type { Priority } from '../../engine/scheduler/sequence.ts';
import type { BlockDemand } from '../../engine/scheduler/stats.ts';
import type { TierStats } from '../../engine/tiers/tier-stats.ts';
import { folderOf, modelParts } from '../../pool/model-files.ts';
import type { ModelKeys } from '../../pool/model-keys.ts';
import type { ModelEntry, ModelPool } from '../../pool/model-pool.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { Clock } from '../../runtime/clock.ts';
import { messageOf } from '../../runtime/error-message.ts';
import type { ModelLoad, ModelStatus } from '../messages.ts';
import type { TierReport } from '../routing/heartbeat.ts';
import type { Ledger } from './ledger.ts';
import { RecentSteps } from './step-rates.ts';
import { StepSpeeds } from './step-speeds.ts';

interface Watched {
  readonly speeds: StepSpeeds;
  readonly steps: RecentSteps;
  stepCount: number;
  /** Of images, since its engine began. */
  pieces: number;
  blocks: BlockDemand | undefined;
  tiers: TierReport | undefined;
}

interface Content {
  readonly key: string;
  readonly vision?: string;
  readonly weightBytes: number;
}

export interface WorkerModelsOptions {
  readonly pool: ModelPool;
  readonly ledger: Ledger;
  readonly keys: Pick<ModelKeys, 'of' | 'ofTower'>;
  /** Whether pictures can be read here. */
  readonly readsPictures: boolean;
  /** Answers are the same bits among equal values. */
  readonly determinism: (computedBy: string) => string;
  readonly maxRunning: number;
  readonly clock: Clock;
  readonly onProblem: (message: string) => void;
}

export class WorkerModels {
  readonly #options: WorkerModelsOptions;
  readonly #watched = new WeakMap<EngineClient, Watched>();
  /** By path of model and adapter; undefined until it is read, or where it cannot be. */
  readonly #contents = new Map<string, Content | undefined>();

  constructor(options: WorkerModelsOptions) {
    this.#options = options;
  }

  /** Models whose content is known; the others follow once they are read. */
  status(): ModelStatus[] {
    const { pool } = this.#options;
    const loaded = new Map(pool.loaded().map((served) => [served.name, served]));
    return pool.list().flatMap((entry, at) => {
      const content = this.#contentOf(entry);
      if (content === undefined) return [];
      const { name, aliases, adapterOf, state, pinned, createdSeconds, memoryBytes, computedBy } = entry;
      const served = loaded.get(adapterOf ?? name);
      const { vision, ...rest } = content;
      // Its engine may have been loaded without its tower.
      const sees = vision !== undefined && (served === undefined || served.spec.vision !== undefined);
      return [
        {
          name,
          aliases,
          adapterOf,
          ...rest,
          ...(sees ? { vision } : {}),
          determinism: computedBy === undefined ? '' : this.#options.determinism(computedBy),
          state,
          isDefault: at === 0,
          pinned,
          createdSeconds,
          memoryBytes,
          computedBy,
          load: served === undefined ? undefined : this.#loadOf(served, name),
        },
      ];
    });
  }

  #loadOf({ engine, blockCount }: ServedModel, name: string): ModelLoad {
    const watched = this.#watch(engine);
    const entries = this.#options.ledger.running().filter(({ model }) => model === name);
    const waiting = entries.filter(({ tokens, given }) => tokens.length === given);
    const of = (priority: Priority) => waiting.filter((entry) => entry.priority === priority);
    const count = (priority: Priority) => of(priority).length;
    // Only the engine knows what is cached; the gateway chose this worker for it.
    const tokens = (priority: Priority) =>
      of(priority).reduce((sum, { promptTokens, given, cachedTokens }) => {
        return sum + Math.max(0, promptTokens + given - cachedTokens);
      }, 0);
    const preparing = waiting.reduce((sum, entry) => sum + Number(entry.preparing), 0);
    const { wallMs, monotonicMs } = this.#options.clock;
    const nowMs = wallMs();
    const oldest = (priority: Priority) =>
      Math.max(0, ...of(priority).map(({ enqueuedMs }) => nowMs - enqueuedMs));
    const { limit, used, cached, shared } = watched.blocks ?? {
      limit: blockCount,
      used: 0,
      cached: 0,
      shared: 0,
    };
    return {
      totalBlocks: blockCount,
      freeBlocks: Math.max(0, limit - used),
      running: entries.length - waiting.length,
      maxRunning: this.#options.maxRunning,
      waiting: [count(0), count(1), count(2)],
      queuedTokens: [tokens(0), tokens(1), tokens(2)],
      oldestMs: [oldest(0), oldest(1), oldest(2)],
      speeds: watched.speeds.speeds,
      answerTokens: this.#options.ledger.answerTokens,
      ...(watched.tiers === undefined ? {} : { tiers: watched.tiers }),
      steps: watched.stepCount,
      ...(preparing > 0 ? { preparing } : {}),
      work: {
        steps: watched.steps.rates(monotonicMs()),
        blocks: { limit, used, cached, shared },
      },
    };
  }

  #watch(engine: EngineClient): Watched {
    const known = this.#watched.get(engine);
    if (known !== undefined) return known;
    const { monotonicMs } = this.#options.clock;
    const watched: Watched = {
      speeds: new StepSpeeds(),
      steps: new RecentSteps(monotonicMs()),
      stepCount: 0,
      pieces: 0,
      blocks: undefined,
      tiers: undefined,
    };
    this.#watched.set(engine, watched);
    engine.monitor?.subscribe({
      step: (step) => {
        watched.stepCount += 1;
        watched.speeds.observe(step);
        watched.steps.observe(step, monotonicMs());
      },
      blocks: (demand) => {
        watched.blocks = demand;
      },
      tiers: (stats) => {
        watched.tiers = tierReport(stats);
      },
      images: ({ pieces }) => {
        // Another engine begins anew.
        watched.stepCount += pieces < watched.pieces ? pieces : pieces - watched.pieces;
        watched.pieces = pieces;
      },
    });
    return watched;
  }

  #contentOf(entry: ModelEntry): Content | undefined {
    const { path, adapterPath, projectorPath, sees } = entry;
    const slot = [path, adapterPath, projectorPath, sees].join(' ');
    if (!this.#contents.has(slot)) {
      this.#contents.set(slot, undefined);
      this.#read(entry).then(
        (content) => this.#contents.set(slot, content),
        (error: unknown) => {
          this.#options.onProblem(`${path} cannot be read: ${messageOf(error)}`);
        },
      );
    }
    return this.#contents.get(slot);
  }

  async #read({ path, adapterPath, projectorPath, sees }: ModelEntry): Promise<Content> {
    const { keys, readsPictures } = this.#options;
    const own = await keys.of(path);
    const key = adapterPath === undefined ? own : `${own}-${await keys.of(adapterPath)}`;
    const folder = folderOf(path);
    const weightBytes = modelParts(path).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
    const vision = sees && readsPictures ? { vision: await keys.ofTower(path, projectorPath) } : {};
    return { key, ...vision, weightBytes };
  }
}

/** What gateways choose by; undefined where nothing could be loaded. */
function tierReport({ host, disk, holder, block }: TierStats): TierReport | undefined {
  const hasDisk = disk !== undefined && holder !== undefined;
  if (block === undefined || (host === undefined && !hasDisk)) return undefined;
  return {
    ...(host === undefined ? {} : { hostBlockMs: block.hostMs }),
    ...(hasDisk ? { disk: { folder: holder, blockMs: block.diskMs } } : {}),
    isAssumed: block.isAssumed,
  };
}
