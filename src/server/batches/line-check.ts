// Checks whether a line of a batch's input can be run at all. Its body is checked when it runs, as with any request; only the
// model is checked here.

import type { ModelPool } from '../../pool/model-pool.ts';
import type { NewLine } from '../../store/batch-lines.ts';
import type { BatchProblem } from '../../store/batch-record.ts';
import { ApiError } from '../http/errors.ts';
import { isTooDeep } from '../http/parse-body.ts';
import { findEntry } from '../request/find-model.ts';
import type { FileLine } from './file-lines.ts';

const LONGEST_CUSTOM_ID = 512;

type CheckedLine =
  | { readonly ok: true; readonly line: NewLine }
  | { readonly ok: false; readonly problem: BatchProblem };

export class LineCheck {
  readonly #endpoint: string;
  readonly #pool: ModelPool;
  readonly #customIds = new Map<string, number>();
  readonly #models = new Set<string>();

  constructor(endpoint: string, pool: ModelPool) {
    this.#endpoint = endpoint;
    this.#pool = pool;
  }

  check(given: FileLine): CheckedLine {
    const { number: line } = given;
    const refused = (code: string, message: string, param?: string): CheckedLine => ({
      ok: false,
      problem: { code, message: `line ${line}: ${message}`, line, param },
    });
    if ('problem' in given) return refused('invalid_json_line', given.problem);
    const value = parsed(given.text);
    if (value === undefined) return refused('invalid_json_line', 'is not a JSON object');
    const { custom_id: customId, method, url, body } = value;
    if (typeof customId !== 'string' || customId === '') {
      return refused('missing_required_parameter', 'custom_id must be a text, and is missing', 'custom_id');
    }
    if (customId.length > LONGEST_CUSTOM_ID) {
      return refused(
        'invalid_value',
        `custom_id is longer than ${LONGEST_CUSTOM_ID} characters`,
        'custom_id',
      );
    }
    const before = this.#customIds.get(customId);
    if (before !== undefined) {
      return refused('duplicate_custom_id', `custom_id is that of line ${before} already`, 'custom_id');
    }
    this.#customIds.set(customId, line);
    if (method !== 'POST') return refused('invalid_method', 'method must be POST', 'method');
    if (url !== this.#endpoint) {
      return refused('invalid_url', `url must be the batch's endpoint, ${this.#endpoint}`, 'url');
    }
    if (!isObject(body)) return refused('missing_required_parameter', 'body must be an object', 'body');
    const problem = this.#modelProblem(body.model ?? undefined);
    if (problem !== undefined) return refused('model_not_found', problem, 'body.model');
    return { ok: true, line: { line, customId, body: JSON.stringify(body) } };
  }

  #modelProblem(model: unknown): string | undefined {
    if (model !== undefined && typeof model !== 'string') return 'body.model must be a text';
    if (this.#models.has(model ?? '')) return undefined;
    try {
      findEntry(this.#pool, model);
    } catch (error) {
      // Where no model is known now, the line is held to it when it runs.
      if (error instanceof ApiError && error.status !== 404) return undefined;
      return error instanceof Error ? error.message : String(error);
    }
    this.#models.add(model ?? '');
    return undefined;
  }
}

function parsed(text: string): Record<string, unknown> | undefined {
  if (isTooDeep(text)) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
