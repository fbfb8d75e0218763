// A gateway's copies of models without their weights, one for each content: names and workers may share it. What is on disk is
// used as it is, so that a gateway that starts again asks nobody.

import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf } from '../../runtime/error-message.ts';
import type { Answer, Question } from '../messages.ts';
import { fetchTextSide, type TextSide } from '../text-side.ts';
import type { FleetModel } from './model-replicas.ts';

type Ask = (node: string, question: Question) => Promise<Answer>;

/** Written last: the copy is whole, and this opens it. Each worker calls its file as it likes. */
const MARK = '.opening';

export class TextCopies {
  readonly #folder: string;
  readonly #ask: Ask;
  readonly #fetching = new Map<string, Promise<string>>();

  constructor(folder: string, ask: Ask) {
    this.#folder = folder;
    this.#ask = ask;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  }

  /** The path that opens the model's text side; fetched from a worker where it is not here. */
  path(model: FleetModel): Promise<string> {
    const kept = this.#kept(model.key);
    if (kept !== undefined) return Promise.resolve(kept);
    const known = this.#fetching.get(model.key);
    if (known !== undefined) return known;
    const fetching = this.#fetch(model).finally(() => this.#fetching.delete(model.key));
    this.#fetching.set(model.key, fetching);
    return fetching;
  }

  #kept(key: string): string | undefined {
    const folder = join(this.#folder, key);
    const mark = join(folder, MARK);
    if (!existsSync(mark)) return undefined;
    const path = join(folder, readFileSync(mark, 'utf8'));
    return existsSync(path) ? path : undefined;
  }

  async #fetch({ name, key, replicas }: FleetModel): Promise<string> {
    let reason = 'no worker has it';
    for (const { status } of replicas) {
      try {
        const answer = await this.#ask(status.node, { kind: 'text-side', model: name });
        if (answer.kind === 'text-side') return await this.#fetchFrom(status.node, name, key, answer.side);
        reason = reasonOf(answer);
      } catch (error) {
        reason = messageOf(error);
      }
    }
    throw new Error(reason);
  }

  async #fetchFrom(node: string, model: string, key: string, side: TextSide): Promise<string> {
    const folder = join(this.#folder, key);
    const aside = `${folder}.${process.pid}`;
    rmSync(aside, { recursive: true, force: true });
    await fetchTextSide(aside, side, async (file, offset, bytes) => {
      const answer = await this.#ask(node, { kind: 'text-part', model, file, offset, bytes });
      if (answer.kind === 'text-part') return answer.content;
      throw new Error(reasonOf(answer));
    });
    writeFileSync(join(aside, MARK), side.opening);
    rmSync(folder, { recursive: true, force: true });
    try {
      renameSync(aside, folder);
    } catch (error) {
      // Another gateway with the same home was faster: content is the name, so its copy is as good.
      rmSync(aside, { recursive: true, force: true });
      if (this.#kept(key) === undefined) throw error;
    }
    return join(folder, side.opening);
  }
}

function reasonOf(answer: Answer): string {
  return answer.kind === 'refused' ? answer.reason : 'a wrong answer came';
}
