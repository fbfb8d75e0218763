// A gateway's copies of models without their weights, one for each content: names and workers may share it. What is on disk is
// used as it is, so that a gateway that starts again asks nobody.

import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf } from '../../runtime/error-message.ts';
import type { Answer, Question } from '../messages.ts';
import { fetchTextSide, type TextPaths, type TextSide, textPaths } from '../text-side.ts';
import type { FleetModel } from './model-replicas.ts';

type Ask = (node: string, question: Question) => Promise<Answer>;

/** Written last: the copy is whole, and these open it, model and projector. Each worker calls its files as it likes. */
const MARK = '.opening';

export class TextCopies {
  readonly #folder: string;
  readonly #ask: Ask;
  readonly #fetching = new Map<string, Promise<TextPaths>>();

  constructor(folder: string, ask: Ask) {
    this.#folder = folder;
    this.#ask = ask;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  }

  /** What opens the model's text side; fetched from a worker where it is not here. */
  paths(model: FleetModel): Promise<TextPaths> {
    const name = copyOf(model);
    const kept = this.#kept(name);
    if (kept !== undefined) return Promise.resolve(kept);
    const known = this.#fetching.get(name);
    if (known !== undefined) return known;
    const fetching = this.#fetch(model).finally(() => this.#fetching.delete(name));
    this.#fetching.set(name, fetching);
    return fetching;
  }

  #kept(name: string): TextPaths | undefined {
    const folder = join(this.#folder, name);
    const mark = join(folder, MARK);
    if (!existsSync(mark)) return undefined;
    const [opening = '', projector] = readFileSync(mark, 'utf8').split('\n');
    const paths = textPaths(folder, { opening, projector });
    return Object.values(paths).every((path) => path === undefined || existsSync(path)) ? paths : undefined;
  }

  async #fetch(model: FleetModel): Promise<TextPaths> {
    const { name, vision, replicas } = model;
    let reason = 'no worker has it';
    for (const { status } of replicas.filter((one) => vision === undefined || one.model.vision === vision)) {
      try {
        const answer = await this.#ask(status.node, { kind: 'text-side', model: name });
        if (answer.kind === 'text-side') return await this.#fetchFrom(status.node, model, answer.side);
        reason = reasonOf(answer);
      } catch (error) {
        reason = messageOf(error);
      }
    }
    throw new Error(reason);
  }

  async #fetchFrom(node: string, model: FleetModel, side: TextSide): Promise<TextPaths> {
    const copy = copyOf(model);
    const folder = join(this.#folder, copy);
    const aside = `${folder}.${process.pid}`;
    rmSync(aside, { recursive: true, force: true });
    await fetchTextSide(aside, side, async (file, offset, bytes) => {
      const answer = await this.#ask(node, { kind: 'text-part', model: model.name, file, offset, bytes });
      if (answer.kind === 'text-part') return answer.content;
      throw new Error(reasonOf(answer));
    });
    const { opening, projector } = side;
    writeFileSync(join(aside, MARK), projector === undefined ? opening : `${opening}\n${projector}`);
    rmSync(folder, { recursive: true, force: true });
    try {
      renameSync(aside, folder);
    } catch (error) {
      // Another gateway with the same home was faster: content is the name, so its copy is as good.
      rmSync(aside, { recursive: true, force: true });
      if (this.#kept(copy) === undefined) throw error;
    }
    return textPaths(folder, side);
  }
}

/** Copies that have no tower are named as before there were any. */
function copyOf({ key, vision }: FleetModel): string {
  return vision === undefined || vision === key ? key : `${key}-${vision}`;
}

function reasonOf(answer: Answer): string {
  return answer.kind === 'refused' ? answer.reason : 'a wrong answer came';
}
