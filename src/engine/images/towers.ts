// Requests whose images are not computed yet, and the vision tower's work for them, a part between any two steps. Each image is
// computed once, whoever shows it, and goes by the order of requests: priority, age, accounts in turn. A request begins where
// there is room for the features of all its images, and nobody overtakes the first that finds none, so what has begun always ends.

import type { ImageFeatures } from '../../compute/backend.ts';
import type { Sequence } from '../scheduler/sequence.ts';
import { WaitingQueue } from '../scheduler/waiting-queue.ts';
import { FeatureStore } from './feature-store.ts';
import { countProblem, type ImageError } from './features-problem.ts';
import { type BeginImage, ImageRuns } from './image-runs.ts';
import type { ImageStats } from './image-stats.ts';
import { featureBytes, type PromptImage, type VisionLimits } from './prompt-images.ts';
import type { StoredFeatures } from './stored-features.ts';

/** What has become of requests. */
export interface TowerResults {
  /** All their images are there. */
  readonly ready: Sequence[];
  readonly failed: { readonly sequence: Sequence; readonly error: ImageError }[];
  /** Time that went into images of a sequence. */
  readonly spent: { readonly sequence: Sequence; readonly ms: number }[];
}

interface Picture {
  readonly image: PromptImage;
  /** What its features are known by: nobody learns from them what others have shown who share nothing. */
  readonly key: string;
  readonly bytes: number;
}

interface Showing {
  readonly sequence: Sequence;
  readonly pictures: readonly Picture[];
  /** Whether it uses its features, or room for them. */
  begun: boolean;
  /** Its images are on the disk, some at least, and on their way: it is in no queue. */
  reading: boolean;
}

interface Arrival {
  readonly showing: Showing;
  readonly features: ReadonlyMap<Picture, ImageFeatures | undefined>;
}

/** Of the time there is, what a piece is asked to take: what it takes is known only roughly, and the next one makes up for it. */
const PIECE_SHARE = 2 / 3;

interface TowersOptions {
  readonly vision: VisionLimits;
  readonly limitBytes: number;
}

export class Towers {
  readonly #runs: ImageRuns;
  readonly #vision: VisionLimits;
  readonly #nowMs: () => number;
  readonly #store: FeatureStore;
  /** Those that have not begun. */
  readonly #queue = new WaitingQueue();
  /** Those that have, and are not complete, as they began. */
  readonly #begun: Showing[] = [];
  /** All that wait, and by each of their images. */
  readonly #waiting = new Map<Sequence, Showing>();
  readonly #byKey = new Map<string, Set<Showing>>();
  /** Those that are complete and use their features. */
  readonly #complete = new Map<Sequence, Showing>();
  #arrivals = 0;
  /** Read from the disk, and not looked at. */
  #arrived: Arrival[] = [];
  #stored: StoredFeatures | undefined;
  #wake = () => {};
  readonly #counts = { computed: 0, hits: 0, loaded: 0, pieces: 0 };

  constructor(begin: BeginImage, { vision, limitBytes }: TowersOptions, nowMs: () => number) {
    this.#runs = new ImageRuns(begin, vision, nowMs);
    this.#vision = vision;
    this.#store = new FeatureStore(limitBytes);
    this.#nowMs = nowMs;
  }

  /** From here on features are kept on the disk, too; `wake`: some have come from there. */
  open(stored: StoredFeatures, wake: () => void): void {
    this.#stored = stored;
    this.#wake = wake;
  }

  /** Nothing of the tenant is kept on the disk any more. */
  removeTenant(tenant: string): void {
    this.#stored?.forget(tenant);
  }

  /** Those that wait for their images, in no particular order. */
  waiting(): Iterable<Sequence> {
    return this.#waiting.keys();
  }

  get waitingCount(): number {
    return this.#waiting.size;
  }

  stats(): ImageStats {
    const { size: kept, bytes, usedBytes, limitBytes } = this.#store;
    return {
      waiting: this.waitingCount,
      busy: this.hasWork,
      ...this.#counts,
      kept,
      bytes,
      usedBytes,
      limitBytes,
    };
  }

  /** Takes a sequence that shows images, which may be there already. */
  add(sequence: Sequence, images: readonly PromptImage[], salt: string): 'ready' | 'waiting' | ImageError {
    const pictures = images.map((image) => ({
      image,
      key: `${salt}\n${image.key}`,
      bytes: image.places.length * featureBytes(this.#vision),
    }));
    const showing: Showing = { sequence, pictures, begun: false, reading: false };
    const keys = keysOf(showing);
    for (const key of keys) this.#counts.hits += Number(this.#store.has(key) || this.#byKey.has(key));
    if (this.#isComplete(showing)) {
      const error = this.#countProblem(showing);
      if (error === undefined) this.#keep(showing);
      return error ?? 'ready';
    }
    this.#waiting.set(sequence, showing);
    for (const key of keys) {
      const others = this.#byKey.get(key) ?? new Set();
      this.#byKey.set(key, others.add(showing));
    }
    if (!this.#read(showing)) this.#enqueue(showing);
    return 'waiting';
  }

  /** The sequence has ended. Images that nobody else waits for are computed no further. */
  remove(sequence: Sequence): void {
    const complete = this.#complete.get(sequence);
    this.#complete.delete(sequence);
    if (complete !== undefined) this.#release(complete);
    const waiting = this.#waiting.get(sequence);
    if (waiting === undefined) return;
    this.#leave(waiting);
    if (waiting.begun) this.#release(waiting);
    for (const key of keysOf(waiting)) if (!this.#byKey.has(key)) this.#runs.close(key);
  }

  /** Whether there is anything to compute now. */
  get hasWork(): boolean {
    return this.#arrived.length > 0 || this.#begun.length > 0 || this.#hasRoom(this.#front());
  }

  /** Computes for about so long, one piece at least. Between steps. */
  async advance(nowMs: number, ms: number): Promise<TowerResults> {
    const results: TowerResults = { ready: [], failed: [], spent: [] };
    for (const arrival of this.#arrived.splice(0)) this.#take(arrival, results);
    this.#queue.advance(nowMs);
    const end = this.#nowMs() + ms;
    let left = ms;
    do {
      const showing = this.#next();
      if (showing === undefined) break;
      await this.#compute(showing, PIECE_SHARE * left, results);
      left = end - this.#nowMs();
    } while (this.#runs.fits(left));
    return results;
  }

  #enqueue({ sequence }: Showing): void {
    sequence.arrival = this.#arrivals++;
    this.#queue.push(sequence);
  }

  /** Asks the disk for what it has of its images; false where that is nothing. */
  #read(showing: Showing): boolean {
    const stored = this.#stored;
    const wanted = showing.pictures.filter(({ key }) => !this.#store.has(key) && stored?.has(key));
    if (stored === undefined || wanted.length === 0) return false;
    showing.reading = true;
    const reads = wanted.map(async (picture) => [picture, await stored.read(picture.key)] as const);
    void Promise.all(reads).then((features) => {
      this.#arrived.push({ showing, features: new Map(features) });
      this.#wake();
    });
    return true;
  }

  /** Takes what came from the disk; what did not is computed. */
  #take({ showing, features }: Arrival, results: TowerResults): void {
    if (this.#waiting.get(showing.sequence) !== showing) return;
    showing.reading = false;
    const come = [...features].filter(([{ key }, each]) => each !== undefined && !this.#store.has(key));
    // All are kept until it is known whether they are enough.
    for (const [{ key, bytes }] of come) this.#store.use(key, bytes);
    for (const [{ key }, each] of come) this.#store.put(key, each as ImageFeatures);
    this.#counts.loaded += come.length;
    this.#enqueue(showing);
    const waiters = new Set(come.flatMap(([{ key }]) => [...(this.#byKey.get(key) ?? [])]));
    for (const waiter of waiters) this.#finish(waiter, results);
    for (const [{ key }] of come) this.#store.release(key);
  }

  /** Whose turn it is: what has begun goes on, unless one of a more urgent tier may begin. */
  #next(): Showing | undefined {
    const going = this.#begun.reduce<Showing | undefined>(
      (best, each) => (best === undefined || each.sequence.priority < best.sequence.priority ? each : best),
      undefined,
    );
    const front = this.#front();
    const isUrgent = going === undefined || (front?.sequence.priority ?? 2) < going.sequence.priority;
    if (front === undefined || !isUrgent || !this.#hasRoom(front)) return going;
    const { sequence } = front;
    front.begun = true;
    for (const { key, bytes } of front.pictures) this.#store.use(key, bytes);
    this.#queue.remove(sequence);
    this.#queue.started(sequence, 0);
    this.#begun.push(front);
    return front;
  }

  #front(): Showing | undefined {
    const sequence = this.#queue.peek();
    return sequence && this.#waiting.get(sequence);
  }

  /** Where nobody uses any, there is room for whatever is asked. */
  #hasRoom(showing: Showing | undefined): boolean {
    if (showing === undefined) return false;
    const { usedBytes, limitBytes } = this.#store;
    const added = new Map(
      showing.pictures.map(({ key, bytes }) => [key, this.#store.addedBytes(key, bytes)] as const),
    );
    const wanted = [...added.values()].reduce((sum, bytes) => sum + bytes, 0);
    return usedBytes === 0 || usedBytes + wanted <= limitBytes;
  }

  async #compute(showing: Showing, ms: number, results: TowerResults): Promise<void> {
    const picture = showing.pictures.find(({ key }) => !this.#store.has(key)) as Picture;
    const startedMs = this.#nowMs();
    const { key, image } = picture;
    const outcome = await this.#runs.advance(key, image.input, ms);
    this.#counts.pieces += 1;
    if (showing.begun && this.#waiting.has(showing.sequence)) {
      const { sequence } = showing;
      const spentMs = this.#nowMs() - startedMs;
      this.#queue.computed(sequence, spentMs);
      this.#queue.settle();
      results.spent.push({ sequence, ms: spentMs });
    }
    // Everyone may have left meanwhile.
    if (!this.#byKey.has(key)) this.#runs.close(key);
    else if (outcome !== undefined) this.#settle(key, outcome, results);
  }

  /** An image is done: those that have waited for it alone are complete, or end. */
  #settle(key: string, outcome: ImageFeatures | ImageError, results: TowerResults): void {
    const waiters = [...(this.#byKey.get(key) ?? [])];
    if ('code' in outcome) {
      for (const { sequence, pictures } of waiters) {
        const index = pictures.findIndex((one) => one.key === key);
        results.failed.push({ sequence, error: ofImage(index, outcome) });
        this.remove(sequence);
      }
      return;
    }
    this.#counts.computed += 1;
    this.#store.put(key, outcome);
    this.#stored?.write(key, outcome);
    this.#runs.close(key);
    for (const waiter of waiters) this.#finish(waiter, results);
  }

  /** It waits no more if all its images are there. */
  #finish(showing: Showing, { ready, failed }: TowerResults): void {
    if (!this.#isComplete(showing)) return;
    const { sequence } = showing;
    const error = this.#countProblem(showing);
    if (error === undefined) {
      this.#leave(showing);
      this.#keep(showing);
      ready.push(sequence);
    } else {
      failed.push({ sequence, error });
      this.remove(sequence);
    }
  }

  #isComplete({ pictures }: Showing): boolean {
    return pictures.every(({ key }) => this.#store.has(key));
  }

  /** Whoever made the prompt may have counted otherwise. */
  #countProblem({ pictures }: Showing): ImageError | undefined {
    const { hiddenSize } = this.#vision;
    for (const [index, { image, key }] of pictures.entries()) {
      const features = this.#store.featuresOf(key);
      const error = features && countProblem(features, image.places.length, hiddenSize);
      if (error !== undefined) return ofImage(index, error);
    }
    return undefined;
  }

  /** Has all its features from now on. */
  #keep(showing: Showing): void {
    const { sequence, pictures } = showing;
    if (!showing.begun) for (const { key, bytes } of pictures) this.#store.use(key, bytes);
    showing.begun = true;
    this.#complete.set(sequence, showing);
    if (sequence.images === undefined) throw new Error(`sequence ${sequence.id} shows no images`);
    sequence.images.features = pictures.map(({ key }) => this.#store.featuresOf(key) as ImageFeatures);
  }

  /** It waits no more. */
  #leave(showing: Showing): void {
    const { sequence, begun, reading } = showing;
    this.#waiting.delete(sequence);
    if (begun) {
      this.#begun.splice(this.#begun.indexOf(showing), 1);
      this.#queue.stopped(sequence);
    } else if (!reading) this.#queue.remove(sequence);
    for (const key of keysOf(showing)) {
      const others = this.#byKey.get(key);
      others?.delete(showing);
      if (others?.size === 0) this.#byKey.delete(key);
    }
  }

  #release({ pictures }: Showing): void {
    for (const { key } of pictures) this.#store.release(key);
  }
}

function ofImage(index: number, { code, message }: ImageError): ImageError {
  return { code, message: `image ${index + 1} of the prompt: ${message}` };
}

function keysOf({ pictures }: Showing): Set<string> {
  return new Set(pictures.map(({ key }) => key));
}
