// A batch given to a fleet, by a client that asks the next gateway where one does not answer.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Batch, OutputLine } from './batch-server.ts';

const AGAIN_MS = 250;

export class FleetBatch {
  readonly id: string;
  readonly #gateways: readonly string[];
  readonly #key: string;

  private constructor(gateways: readonly string[], key: string, id: string) {
    this.#gateways = gateways;
    this.#key = key;
    this.id = id;
  }

  static async begin(
    gateways: readonly string[],
    key: string,
    lines: readonly string[],
    endpoint = '/v1/completions',
  ): Promise<FleetBatch> {
    const form = new FormData();
    form.set('purpose', 'batch');
    form.set('file', new Blob([`${lines.join('\n')}\n`]), 'input.jsonl');
    const own = new FleetBatch(gateways, key, '');
    const file = (await (await own.#ask('/v1/files', { method: 'POST', body: form })).json()) as {
      id: string;
    };
    const body = { input_file_id: file.id, endpoint, completion_window: '24h' };
    const begun = await own.#ask('/v1/batches', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return new FleetBatch(gateways, key, ((await begun.json()) as Batch).id);
  }

  async look(): Promise<Batch> {
    return (await (await this.#ask(`/v1/batches/${this.id}`)).json()) as Batch;
  }

  /** Its answers so far. */
  async answered(): Promise<number> {
    const { completed, failed } = (await this.look()).request_counts;
    return completed + failed;
  }

  /** Looks until it says so. */
  async until(isSo: (batch: Batch) => boolean, limitMs: number): Promise<Batch> {
    for (const endMs = Date.now() + limitMs; ; await sleep(AGAIN_MS)) {
      const batch = await this.look();
      if (isSo(batch)) return batch;
      if (Date.now() > endMs) throw new Error(`the batch stays at ${JSON.stringify(batch)}`);
    }
  }

  async output(batch: Batch): Promise<OutputLine[]> {
    const text = await (await this.#ask(`/v1/files/${batch.output_file_id}/content`)).text();
    return text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as OutputLine);
  }

  async #ask(path: string, init: RequestInit = {}): Promise<Response> {
    let problem = '';
    for (let attempt = 0; attempt < 240; attempt++) {
      const gateway = this.#gateways[attempt % this.#gateways.length];
      const headers = { ...init.headers, authorization: `Bearer ${this.#key}` };
      try {
        const response = await fetch(`${gateway}${path}`, { ...init, headers });
        if (response.ok) return response;
        problem = `${response.status} ${await response.text()}`;
        if (response.status < 500) break;
      } catch (error) {
        problem = String(error);
      }
      await sleep(AGAIN_MS);
    }
    throw new Error(`${path}: ${problem}`);
  }
}
