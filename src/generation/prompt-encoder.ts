// What texts of prompts are encoded by.

import type { EncodeWorkers } from '../text/encode-workers.ts';

/** Threads for a server, the calling thread for a command. */
export type PromptEncoder = Pick<EncodeWorkers, 'encode'>;

export const directEncoder: PromptEncoder = {
  encode: async ({ tokenizer }, text, options) => tokenizer.encode(text, options),
};
