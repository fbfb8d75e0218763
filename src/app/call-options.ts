// What a call of a loaded model may ask for, and its way to the engine's parameters. A wrong value or an unknown
// name is refused, never ignored.

import type { Priority } from '../engine/request.ts';
import { type ParameterNames, samplingSettings } from '../generation/sampling-settings.ts';
import type { SamplingParameters, SamplingRequest } from '../sampling/parameters.ts';
import type { StructureOptions, ToolOptions } from './answer-options.ts';
import { invalidValue } from './chairlift-error.ts';

const priorities = { high: 0, normal: 1, low: 2 } as const satisfies Record<string, Priority>;

export type TokenOptions = SamplingRequest & {
  /** Ends the answer at once; the call then fails with the signal's reason, an AbortError by default. */
  readonly signal?: AbortSignal | undefined;
  /** Who goes first where there is not room for all. Default normal. */
  readonly priority?: keyof typeof priorities | undefined;
  /** One of the adapters that the model was loaded with. Default none. */
  readonly adapter?: string | undefined;
};

export type TextOptions = TokenOptions &
  StructureOptions & {
    /** Texts that end the answer and are not shown. */
    readonly stop?: readonly string[] | undefined;
    /** What the answer will probably be, such as a text that is to be corrected: it comes sooner, and is the same. */
    readonly prediction?: string | undefined;
    /** Control tokens appear in the text as they are spelled. Default false: they are left out. */
    readonly special?: boolean | undefined;
  };

export type ChatOptions = TextOptions &
  ToolOptions & {
    /** Further variables for the model's chat template, such as `enable_thinking`. */
    readonly variables?: Readonly<Record<string, unknown>> | undefined;
  };

export interface EmbedOptions extends Pick<TokenOptions, 'signal' | 'priority' | 'adapter'> {
  /** So many leading values of each vector, again of length 1. Default all. */
  readonly dimensions?: number | undefined;
}

export function priorityOf(name: TokenOptions['priority'] = 'normal'): Priority {
  if (Object.hasOwn(priorities, name)) return priorities[name];
  throw invalidValue('priority', `give one of ${Object.keys(priorities).join(', ')}`);
}

export function stopsOf(stop: TextOptions['stop'] = []): readonly string[] {
  if (Array.isArray(stop) && stop.every((text) => typeof text === 'string' && text !== '')) return stop;
  throw invalidValue('stop', 'give a list of texts, none of them empty');
}

export function predictionOf(text: TextOptions['prediction']): string | undefined {
  if (text === undefined || typeof text === 'string') return text;
  throw invalidValue('prediction', 'give a text');
}

/** All options that are left when a call has taken those of its own. */
export function samplingOf(
  request: SamplingRequest,
  vocabSize: number,
  names: ParameterNames,
): SamplingParameters {
  const parameters = samplingSettings(request, vocabSize, names);
  const stranger = Object.keys(request).find((name) => !Object.hasOwn(parameters, name));
  if (stranger !== undefined) throw invalidValue(stranger, 'there is no such option for this call');
  return parameters;
}
