// A trace of requests as JSON lines: {"arrivalMs": 0, "promptTokens": 300, "answerTokens": 64, "prefixGroup": 1}, and where
// wanted "prefixTokens" and "conversation".

import { z } from 'zod';
import type { TracedRequest } from './traffic.ts';

type Trace =
  | { readonly kind: 'trace'; readonly requests: readonly TracedRequest[] }
  | { readonly kind: 'mistake'; readonly line: number; readonly reason: string };

const wholeTokens = z.int().min(1).max(1_000_000);
const line = z.strictObject({
  arrivalMs: z.number().min(0),
  promptTokens: wholeTokens,
  answerTokens: wholeTokens,
  prefixGroup: z.int().min(0).default(0),
  prefixTokens: z.int().min(0).optional(),
  conversation: z.string().optional(),
});

/** `prefixTokens`: how many a group shares where a line does not say. */
export function readTrace(text: string, prefixTokens: number): Trace {
  const requests: TracedRequest[] = [];
  for (const [at, written] of text.split('\n').entries()) {
    if (written.trim() === '') continue;
    let value: unknown;
    try {
      value = JSON.parse(written);
    } catch {
      return { kind: 'mistake', line: at + 1, reason: 'is not JSON' };
    }
    const read = line.safeParse(value);
    if (!read.success) {
      const [issue] = read.error.issues;
      const where = issue?.path.join('.') ?? '';
      return { kind: 'mistake', line: at + 1, reason: `${where}: ${issue?.message}` };
    }
    requests.push({ ...read.data, prefixTokens: read.data.prefixTokens ?? prefixTokens });
  }
  if (requests.length === 0) return { kind: 'mistake', line: 1, reason: 'no request in the file' };
  return { kind: 'trace', requests };
}
