// The pictures of requests at a worker: each is fetched from the gateway that has the request and prepared for the model, unless
// what became of it before is still there. Requests that show the same at once share one fetch.

import type { PromptImage, PromptImages } from '../../engine/request.ts';
import type { PictureLimits } from '../../images/decode.ts';
import { viewRule } from '../../images/detail.ts';
import { PictureError } from '../../images/picture.ts';
import { type PictureWorkers, pictureKey } from '../../images/picture-workers.ts';
import { planViews, type ViewPlan } from '../../images/view-plan.ts';
import type { PreprocessingSpec } from '../../model/vision/preprocessing.ts';
import type { ImageView, VisionSpec } from '../../model/vision/vision-spec.ts';
import type { Clock } from '../../runtime/clock.ts';
import { orAbort } from '../../runtime/timers.ts';
import type { Attempt, NamedPicture, NamedPictures, ToWorker } from '../messages.ts';
import { PictureFetch } from './picture-fetch.ts';
import { PictureRoom } from './picture-room.ts';
import { Turns } from './turns.ts';

/** Each has a megabyte on its way at most. */
const FETCHES = 4;

export interface WorkerPicturesOptions {
  readonly reader: Pick<PictureWorkers, 'kept' | 'views'>;
  readonly limits: PictureLimits;
  /** For pictures of all requests that run or wait. */
  readonly roomBytes: number;
}

/** A request whose pictures are wanted. */
export interface PicturedRequest {
  readonly attempt: Attempt;
  readonly pictures: NamedPictures;
  readonly account: string;
  readonly vision: VisionSpec;
  readonly signal: AbortSignal;
  /** Asks its gateway for a part of a file. */
  readonly ask: (picture: number, offset: number, bytes: number) => void;
}

export interface PreparedPictures {
  readonly images: PromptImages;
  readonly release: () => void;
}

/** A picture that cannot be read, as the client calls it. */
export class UnreadablePicture extends Error {
  override readonly name = 'UnreadablePicture';
  readonly parameter: string;

  constructor(parameter: string, message: string) {
    super(message);
    this.parameter = parameter;
  }
}

interface Planned {
  readonly named: NamedPicture;
  readonly at: number;
  readonly plan: ViewPlan;
}

type Part = Extract<ToWorker, { kind: 'picture' }>;

export class WorkerPictures {
  readonly #options: WorkerPicturesOptions;
  readonly #clock: Clock;
  readonly #room: PictureRoom;
  readonly #turns = new Turns(FETCHES);
  /** By request, attempt and picture. */
  readonly #fetches = new Map<string, PictureFetch>();
  /** By account and key. */
  readonly #preparing = new Map<string, Promise<readonly ImageView[]>>();

  constructor(options: WorkerPicturesOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
    this.#room = new PictureRoom(options.roomBytes);
  }

  /** Of pictures of requests that were not released. */
  get usedBytes(): number {
    return this.#room.usedBytes;
  }

  take({ id, attempt, picture, offset, content }: Part): void {
    this.#fetches.get(fetchOf({ id, attempt }, picture))?.take(offset, content);
  }

  /** Rejects with UnreadablePicture where the client is to blame. */
  async prepare(request: PicturedRequest): Promise<PreparedPictures> {
    const { pictures, vision, account, signal } = request;
    const planned = this.#plan(pictures, vision.preprocessing);
    const wanted = planned.map(({ named, plan }) => [slotOf(account, named), bytesOf(plan)] as const);
    const largest = Math.max(...planned.map(({ named }) => named.bytes));
    const { id, attempt } = request.attempt;
    // One file at a time, and what becomes of all.
    const release = await this.#room.take(
      new Map([...wanted, [`file of ${id} ${attempt}`, largest]]),
      signal,
    );
    try {
      const images: PromptImage[] = [];
      for (const one of planned) images.push(await this.#image(request, one));
      const { rotaryPositions } = pictures;
      return { images: { images, ...(rotaryPositions && { rotaryPositions }) }, release };
    } catch (error) {
      release();
      throw error;
    }
  }

  #plan({ images }: NamedPictures, preprocessing: PreprocessingSpec): Planned[] {
    return images.map((named, at) => {
      const { maxBytes } = this.#options.limits;
      if (named.bytes > maxBytes) {
        const problem = `the image has ${named.bytes} bytes; ${maxBytes} are possible at the worker that has the model`;
        throw new UnreadablePicture(named.where, problem);
      }
      const plan = planViews(viewRule(preprocessing, images.length > 1, named.detail), named.size);
      if (pictureKey(named.hash, preprocessing, plan) === named.key) return { named, at, plan };
      throw new Error('it prepares pictures otherwise than its gateway: their versions differ');
    });
  }

  async #image(request: PicturedRequest, { named, at, plan }: Planned): Promise<PromptImage> {
    const views = await this.#views(request, { named, at, plan });
    const { rows, columns } = plan;
    const { key, places, size } = named;
    return { key, places, input: { views, tiles: { rows, columns, picture: size } } };
  }

  async #views(request: PicturedRequest, planned: Planned): Promise<readonly ImageView[]> {
    const { named, plan } = planned;
    const { account, signal, vision } = request;
    const slot = slotOf(account, named);
    for (;;) {
      const kept = this.#options.reader.kept(named.hash, vision.preprocessing, plan, { account });
      if (kept !== undefined) return kept;
      const running = this.#preparing.get(slot);
      if (running === undefined) break;
      // Where the other one fails, or its client leaves, this one has its own try.
      const shared = await orAbort(
        running.catch(() => undefined),
        signal,
      );
      if (shared !== undefined) return shared;
    }
    const preparing = this.#prepare(request, planned).finally(() => this.#preparing.delete(slot));
    this.#preparing.set(slot, preparing);
    return preparing;
  }

  async #prepare(
    { attempt, account, signal, vision, ask }: PicturedRequest,
    { named, at, plan }: Planned,
  ): Promise<readonly ImageView[]> {
    const { hash, size, where } = named;
    const file = await this.#turns.run(() => this.#fetch(attempt, at, named, ask, signal), signal);
    const { reader, limits } = this.#options;
    try {
      return await reader.views({ file, limits, hash, size }, vision.preprocessing, plan, {
        account,
        signal,
      });
    } catch (error) {
      if (error instanceof PictureError) throw new UnreadablePicture(where, error.message);
      throw error;
    }
  }

  async #fetch(
    attempt: Attempt,
    picture: number,
    { bytes, hash }: NamedPicture,
    ask: PicturedRequest['ask'],
    signal: AbortSignal,
  ): Promise<Uint8Array> {
    const name = fetchOf(attempt, picture);
    const fetch = new PictureFetch({
      bytes,
      hash,
      clock: this.#clock,
      ask: (offset, count) => ask(picture, offset, count),
    });
    this.#fetches.set(name, fetch);
    try {
      return await fetch.run(signal);
    } finally {
      this.#fetches.delete(name);
    }
  }
}

function fetchOf({ id, attempt }: Attempt, picture: number): string {
  return `${id} ${attempt} ${picture}`;
}

function slotOf(account: string, { key }: NamedPicture): string {
  return `${account} ${key}`;
}

function bytesOf({ views }: ViewPlan): number {
  return views.reduce((sum, { width, height }) => sum + 3 * width * height, 0);
}
