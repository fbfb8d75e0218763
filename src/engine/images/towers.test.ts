import { describe, expect, it } from 'vitest';
import { HashTower, seenPrompt, vision } from '../../../test/property/seeing.ts';
import type { BlockTier } from '../../block-store/block-tier.ts';
import type { ImageRun } from '../../compute/backend.ts';
import { Sequence, type SequenceOptions } from '../scheduler/sequence.ts';
import { ShownImages } from '../scheduler/shown-images.ts';
import { StoredFeatures } from './stored-features.ts';
import { type TowerResults, Towers } from './towers.ts';

const FEATURE_BYTES = 16;
/** Features of images 0, 1, 2 and 3: 1, 4, 33 and 70. */
const WHOLE = 1 << 20;

class World {
  nowMs = 0;
  readonly pieces: number[] = [];
  readonly tower = new HashTower(false, () => {
    this.nowMs += 10;
  });
  readonly towers: Towers;
  readonly #images = new Map<ImageRun, number>();
  #ids = 0;

  constructor(limitBytes = WHOLE) {
    const begin = (input: Parameters<HashTower['beginImage']>[0]): ImageRun => {
      const run = this.tower.beginImage(input);
      this.#images.set(run, input.views[0]?.rgb[0] as number);
      const { advance } = run;
      run.advance = async (work) => {
        this.pieces.push(this.#images.get(run) as number);
        await advance(work);
      };
      return run;
    };
    this.towers = new Towers(begin, { vision, limitBytes }, () => this.nowMs);
  }

  add(images: readonly number[], options: Partial<SequenceOptions> = {}) {
    const { tokens, images: shown } = seenPrompt(images.map((image) => ({ image })));
    const prompt = Int32Array.from(tokens);
    const id = `s${this.#ids++}`;
    const sequence = new Sequence({
      id,
      tokens: prompt,
      maxTokens: prompt.length + 9,
      priority: 1,
      enqueuedMs: this.nowMs,
      ...options,
    });
    sequence.images = new ShownImages(shown, prompt);
    return { sequence, place: this.towers.add(sequence, shown.images, options.salt ?? '') };
  }

  advance(ms = Number.POSITIVE_INFINITY): Promise<TowerResults> {
    return this.towers.advance(this.nowMs, ms);
  }

  /** Ids of those that became ready. */
  async ready(ms?: number): Promise<string[]> {
    return (await this.advance(ms)).ready.map(({ id }) => id);
  }
}

describe('towers between steps', () => {
  it('look at an image once for all that show it at the same time, and not again while it is kept', async () => {
    const world = new World();
    const both = [world.add([3, 1]), world.add([1, 3])];
    expect(both.map(({ place }) => place)).toEqual(['waiting', 'waiting']);
    expect(await world.ready()).toEqual(['s0', 's1']);
    expect(world.tower.begun).toBe(2);
    expect(world.add([1]).place).toBe('ready');
    const [one, other] = both.map(({ sequence }) => sequence.images?.features);
    expect(one?.[0]).toBe(other?.[1]);
    expect(world.towers.stats()).toMatchObject({ computed: 2, hits: 3, kept: 2, bytes: 74 * FEATURE_BYTES });
  });

  it('share nothing between salts', async () => {
    const world = new World();
    world.add([1], { salt: 'a' });
    await world.ready();
    expect(world.add([1], { salt: 'b' }).place).toBe('waiting');
  });

  it('stop when they are cancelled, unless another request waits for the same image', async () => {
    const world = new World();
    const [one, other] = [world.add([3]), world.add([3])].map(({ sequence }) => sequence);
    await world.advance(20);
    world.towers.remove(one as Sequence);
    expect(world.tower.open).toBe(1);
    world.towers.remove(other as Sequence);
    expect(world.tower.open).toBe(0);
    expect(world.towers.hasWork).toBe(false);
    expect(world.towers.stats()).toMatchObject({ waiting: 0, bytes: 0, usedBytes: 0 });
  });

  it('are left alone while a piece is computed, though everybody leaves', async () => {
    const world = new World();
    const { sequence } = world.add([3]);
    const advanced = world.advance(20);
    world.towers.remove(sequence);
    expect(world.tower.open).toBe(1);
    expect(await advanced).toMatchObject({ ready: [], failed: [] });
    expect(world.tower.open).toBe(0);
  });

  it('keep to the time they are given, once they know their speed', async () => {
    const world = new World();
    world.add([4, 3]);
    for (let turns = 0; turns < 6; turns++) await world.advance(10);
    const began = world.nowMs;
    await world.advance(100);
    expect(world.nowMs - began).toBeGreaterThanOrEqual(90);
    expect(world.nowMs - began).toBeLessThanOrEqual(110);
  });

  it('go on with what is begun, but first with what is more urgent', async () => {
    const world = new World();
    world.add([3], { priority: 2 });
    await world.advance(10);
    world.add([2], { priority: 2 });
    world.add([4], { priority: 0 });
    expect(await world.ready()).toEqual(['s2', 's0', 's1']);
  });

  it('take accounts in turn', async () => {
    const world = new World();
    for (const image of [2, 7, 12]) world.add([image], { account: 'flood' });
    world.add([17], { account: 'one' });
    expect(await world.ready()).toEqual(['s0', 's3', 's1', 's2']);
  });

  it('begin where there is room for all images of a request, and with anything where nobody uses room', async () => {
    const world = new World(80 * FEATURE_BYTES);
    const large = world.add([4]).sequence;
    expect(await world.ready()).toEqual(['s0']);
    const small = world.add([1]).sequence;
    expect(world.towers.hasWork).toBe(false);
    world.towers.remove(large);
    expect(await world.ready()).toEqual(['s1']);
    // Both together would be too much.
    world.add([3, 2]);
    expect(world.towers.hasWork).toBe(false);
    world.towers.remove(small);
    expect(await world.ready()).toEqual(['s2']);
    expect(world.towers.stats().bytes).toBe(103 * FEATURE_BYTES);
  });

  it.each([
    [90, 'engine-failed', /^image 2 of the prompt: the vision tower failed: the tower has collapsed$/],
    [91, 'numeric-error', /^image 2 of the prompt: .* not a number$/],
    [92, 'invalid', /^image 2 of the prompt: 1 tokens stand for 2 features|33 tokens stand for 34 features/],
  ])('end those alone that show an image which cannot be had (%i)', async (image, code, message) => {
    const world = new World();
    for (const images of [[1, image], [2], [3, image]]) world.add(images);
    const { ready, failed } = await world.advance();
    expect(ready.map(({ id }) => id)).toEqual(['s1']);
    expect(failed.map(({ sequence }) => sequence.id).sort()).toEqual(['s0', 's2']);
    for (const { error } of failed) {
      expect(error.code).toBe(code);
      expect(error.message).toMatch(message);
    }
    expect(world.tower.open).toBe(0);
  });
});

/** Keeps all in memory; a read ends when the test calls `answer`. */
class Disk {
  readonly records = new Map<string, Uint8Array>();
  readonly tenants: string[] = [];
  readonly #asked: (() => void)[] = [];

  readonly tier = {
    find: ([key]: Uint8Array[]) => ({ blocks: this.#of(key) === undefined ? 0 : 1, bytes: 0 }),
    read: async ([key]: Uint8Array[]) => {
      await new Promise<void>((resolve) => this.#asked.push(resolve));
      return [this.#of(key)?.slice()];
    },
    write: (key: Uint8Array, tenant: string, bytes: Uint8Array) => {
      this.records.set(Buffer.from(key).toString('hex'), bytes);
      this.tenants.push(tenant);
      return true;
    },
  } as unknown as BlockTier;

  #of(key: Uint8Array | undefined) {
    return this.records.get(Buffer.from(key ?? []).toString('hex'));
  }

  async answer(): Promise<void> {
    for (const resolve of this.#asked.splice(0)) resolve();
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
}

describe('features on the disk', () => {
  const restarted = (disk: Disk, identity = 'model', limitBytes?: number) => {
    const world = new World(limitBytes);
    world.towers.open(new StoredFeatures(disk.tier, identity, vision), () => {});
    return world;
  };
  const computedOnce = async (images: readonly number[], salt = ':ann') => {
    const disk = new Disk();
    const first = restarted(disk);
    const { sequence } = first.add(images, { salt });
    await first.ready();
    return { disk, features: sequence.images?.features };
  };

  it('are computed no more after a restart, with the same bits', async () => {
    const { disk, features } = await computedOnce([1, 3]);
    expect(disk.tenants).toEqual(['ann', 'ann']);
    const second = restarted(disk);
    const { sequence, place } = second.add([1, 3], { salt: ':ann' });
    expect([place, second.towers.hasWork]).toEqual(['waiting', false]);
    await disk.answer();
    expect(second.towers.hasWork).toBe(true);
    expect(await second.ready()).toEqual([sequence.id]);
    expect([second.pieces, sequence.images?.features]).toEqual([[], features]);
    expect(second.towers.stats()).toMatchObject({ computed: 0, loaded: 2 });
  });

  it('are those of one model and one tenant', async () => {
    const { disk } = await computedOnce([1]);
    for (const [identity, salt] of [
      ['other', ':ann'],
      ['model', ':bob'],
    ] as const) {
      const world = restarted(disk, identity);
      world.add([1], { salt });
      expect(world.towers.hasWork).toBe(true);
    }
  });

  it('are computed where the disk has some of them alone, or other bytes', async () => {
    const { disk } = await computedOnce([1]);
    const half = restarted(disk);
    const both = half.add([1, 2], { salt: ':ann' });
    await disk.answer();
    expect(await half.ready()).toEqual([both.sequence.id]);
    expect(new Set(half.pieces)).toEqual(new Set([2]));

    for (const key of disk.records.keys()) disk.records.set(key, new Uint8Array(5));
    const damaged = restarted(disk);
    const { sequence } = damaged.add([1], { salt: ':ann' });
    await disk.answer();
    expect(await damaged.ready()).toEqual([sequence.id]);
    expect(damaged.pieces).not.toEqual([]);
  });

  it('come for nobody who has left', async () => {
    const { disk } = await computedOnce([1]);
    const world = restarted(disk);
    const { sequence } = world.add([1], { salt: ':ann' });
    world.towers.remove(sequence);
    await disk.answer();
    expect(await world.ready()).toEqual([]);
    expect(world.towers.stats()).toMatchObject({ waiting: 0, loaded: 0, usedBytes: 0 });
  });

  it('leave room as others do', async () => {
    const { disk } = await computedOnce([3]);
    const world = restarted(disk, 'model', FEATURE_BYTES);
    const { sequence } = world.add([3], { salt: ':ann' });
    await disk.answer();
    expect(await world.ready()).toEqual([sequence.id]);
    world.towers.remove(sequence);
    expect(world.towers.stats()).toMatchObject({ usedBytes: 0, kept: 0 });
  });

  it('are kept for no tenant that was removed', async () => {
    const { disk } = await computedOnce([1]);
    const world = restarted(disk);
    world.towers.removeTenant('ann');
    world.add([1], { salt: ':ann' });
    await world.ready();
    expect(world.pieces).not.toEqual([]);
    expect(disk.tenants).toEqual(['ann']);
  });
});
