// The metrics of llama-server under its own names, for dashboards that were made for it: one number for all models.

import type { TokenUsage } from '../../generation/answer-source.ts';

/** In milliseconds. */
export interface AnswerTimes {
  readonly promptMs: number;
  readonly answerMs: number;
}

interface Now {
  readonly running: number;
  readonly waiting: number;
}

type Metric = readonly [kind: 'counter' | 'gauge', name: string, help: string, value: number];

export class LlamaMetrics {
  #computed = 0;
  #cached = 0;
  #promptMs = 0;
  #predicted = 0;
  #predictedSteps = 0;
  #predictedMs = 0;
  #steps = 0;
  #sequences = 0;
  #longest = 0;
  #drafted = 0;
  #accepted = 0;

  stepped(sequences: number): void {
    this.#steps += 1;
    this.#sequences += sequences;
  }

  used({ promptTokens, cachedTokens, completionTokens, draftTokens }: TokenUsage, times: AnswerTimes): void {
    this.#computed += promptTokens - cachedTokens;
    this.#cached += cachedTokens;
    this.#promptMs += times.promptMs;
    this.#predicted += completionTokens;
    // The first token comes with the prompt's last step.
    this.#predictedSteps += Math.max(0, completionTokens - 1);
    this.#predictedMs += times.answerMs;
    this.#longest = Math.max(this.#longest, promptTokens + completionTokens);
    this.#drafted += (draftTokens?.accepted ?? 0) + (draftTokens?.rejected ?? 0);
    this.#accepted += draftTokens?.accepted ?? 0;
  }

  text(now: Now): string {
    const lines = this.#metrics(now).flatMap(([kind, name, help, value]) => [
      `# HELP llamacpp:${name} ${help}.`,
      `# TYPE llamacpp:${name} ${kind}`,
      `llamacpp:${name} ${value}`,
    ]);
    return `${lines.join('\n')}\n`;
  }

  #metrics({ running, waiting }: Now): readonly Metric[] {
    const ratio = (value: number, by: number) => (by === 0 ? 0 : value / by);
    const seconds = { prompt: this.#promptMs / 1000, predicted: this.#predictedMs / 1000 };
    const promptSpeed = ratio(this.#computed, seconds.prompt);
    const speed = ratio(this.#predictedSteps, seconds.predicted);
    return [
      ['counter', 'prompt_tokens_total', 'Prompt tokens that were computed', this.#computed],
      ['counter', 'prompt_tokens_cached_total', 'Prompt tokens that needed no compute', this.#cached],
      ['counter', 'prompt_seconds_total', 'Time that prompts took, of all requests', seconds.prompt],
      ['counter', 'tokens_predicted_total', 'Tokens generated for clients', this.#predicted],
      [
        'counter',
        'tokens_predicted_seconds_total',
        'Time that answers took, of all requests',
        seconds.predicted,
      ],
      ['counter', 'n_decode_total', 'Steps of all engines', this.#steps],
      ['counter', 'n_tokens_max', 'The most tokens that a request had', this.#longest],
      ['counter', 'spec_decode_num_draft_tokens_total', 'Draft tokens that were computed', this.#drafted],
      ['counter', 'spec_decode_num_accepted_tokens_total', 'Draft tokens that were accepted', this.#accepted],
      [
        'gauge',
        'n_busy_slots_per_decode',
        'Sequences in a step, on average',
        ratio(this.#sequences, this.#steps),
      ],
      ['gauge', 'prompt_tokens_seconds', 'Prompt tokens a second of a request, on average', promptSpeed],
      ['gauge', 'predicted_tokens_seconds', 'Tokens a second of a request, on average', speed],
      ['gauge', 'requests_processing', 'Sequences in running batches', running],
      ['gauge', 'requests_deferred', 'Sequences that wait', waiting],
    ];
  }
}
