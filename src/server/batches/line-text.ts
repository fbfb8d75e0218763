// Lines of a batch's output, as OpenAI writes them.

import type { BatchEnding } from '../../store/batch-record.ts';

interface AnsweredLine {
  readonly id: string;
  readonly customId: string;
  readonly status: number;
  readonly requestId: string;
  /** JSON. */
  readonly body: string;
}

/** Does not change when the line is run again. */
export function lineId(batchId: string, line: number): string {
  return `batch_req_${batchId.replace(/^batch_/, '')}_${line}`;
}

export function answeredLine({ id, customId, status, requestId, body }: AnsweredLine): string {
  const head = JSON.stringify({ id, custom_id: customId });
  const response = JSON.stringify({ status_code: status, request_id: requestId });
  return `${head.slice(0, -1)},"response":${response.slice(0, -1)},"body":${body}},"error":null}`;
}

export function failedLine(id: string, customId: string, code: string, message: string): string {
  return JSON.stringify({ id, custom_id: customId, response: null, error: { code, message } });
}

const reasons: Readonly<Record<BatchEnding, string>> = {
  completed: 'the request was not run',
  failed: 'the request was not run before the batch failed',
  expired: 'the request was not run before the time of the batch was over',
  cancelled: 'the request was not run before the batch was cancelled',
};

export function unansweredLine(id: string, customId: string, ending: BatchEnding): string {
  return failedLine(id, customId, `batch_${ending}`, reasons[ending]);
}
