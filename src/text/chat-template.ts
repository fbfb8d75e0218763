// Renders a conversation with the model's Jinja template. A model without a template has none here: a wrong one would
// go unnoticed.

import { Environment, parse, tokenize } from '@huggingface/jinja';
import { messageOf } from '../runtime/error-message.ts';
import { type DetectedFormat, detectFormat } from './formats/detect.ts';
import { PythonInterpreter } from './jinja-interpreter.ts';

interface ChatInput {
  readonly messages: readonly Readonly<Record<string, unknown>>[];
  readonly tools?: readonly unknown[] | undefined;
  readonly addGenerationPrompt: boolean;
  /** Ends the text within the last message, without the end of turn, so that the answer continues it. */
  readonly continueFinalMessage?: boolean | undefined;
  /** Such as `enable_thinking`. */
  readonly variables?: Readonly<Record<string, unknown>> | undefined;
  /** For `strftime_now`. Default: the present. */
  readonly now?: Date | undefined;
}

export interface ChatTemplateSource {
  readonly template: string;
  /** Used where tools are given. */
  readonly toolTemplate?: string | undefined;
  /** Such as `bos_token`. */
  readonly specialTokens: Readonly<Record<string, string>>;
}

export interface ChatTemplate {
  readonly format: DetectedFormat;
  /** Whether it renders calls of earlier turns. */
  readonly rendersCalls: boolean;
  /** It shows nothing of a message whose content is a text: content must be a list of parts. */
  readonly wantsParts: boolean;
  readonly source: string;
  render(input: ChatInput): string;
}

export class ChatTemplateError extends Error {
  constructor(what: string, cause: unknown) {
    super(`${what}: ${messageOf(cause)}`, { cause });
    this.name = 'ChatTemplateError';
  }
}

type Program = ReturnType<typeof parse>;

/** Marks the end of the last message in the rendered text. The space shows whether the template trims messages. */
const END_MARK = 'END_OF_THE_FINAL_MESSAGE ';

export function chatTemplate(source: ChatTemplateSource): ChatTemplate {
  const program = compile(source.template);
  const toolProgram = source.toolTemplate === undefined ? program : compile(source.toolTemplate);
  let wantsParts: boolean | undefined;
  return {
    get wantsParts() {
      wantsParts ??= showsPartsAlone(program, source.specialTokens);
      return wantsParts;
    },
    format: detectFormat(source.toolTemplate ?? source.template),
    source: source.template,
    rendersCalls: (source.toolTemplate ?? source.template).includes('tool_calls'),
    render(input) {
      const hasTools = input.tools !== undefined && input.tools.length > 0;
      const variables = {
        ...globals(input.now ?? new Date()),
        ...source.specialTokens,
        documents: null,
        // Some templates show tools as they were given, as a text.
        functions: hasTools ? JSON.stringify(input.tools, undefined, 2) : '',
        ...input.variables,
        messages: input.messages,
        // Templates compare it with none, so it must be defined.
        tools: hasTools ? input.tools : null,
        add_generation_prompt: input.addGenerationPrompt,
      };
      const used = hasTools ? toolProgram : program;
      if (input.continueFinalMessage !== true) return run(used, variables);
      return upToMark(run(used, { ...variables, messages: withMark(input.messages) }));
    },
  };
}

const PROBE = 'a text to find again';

function showsPartsAlone(program: Program, specialTokens: ChatTemplateSource['specialTokens']): boolean {
  const shows = (content: unknown) => {
    const messages = [{ role: 'user', content }];
    const given = { ...globals(new Date(0)), ...specialTokens, messages, tools: null };
    try {
      return run(program, { ...given, add_generation_prompt: true }).includes(PROBE);
    } catch {
      return false;
    }
  };
  return !shows(PROBE) && shows([{ type: 'text', text: PROBE }]);
}

function withMark(messages: ChatInput['messages']): ChatInput['messages'] {
  const last = messages.at(-1);
  return [...messages.slice(0, -1), { ...last, content: `${last?.content ?? ''}${END_MARK}` }];
}

function upToMark(rendered: string): string {
  const end = rendered.lastIndexOf(END_MARK.trimEnd());
  if (end === -1) {
    const cause = 'it does not show the last message, so there is nothing to go on with';
    throw new ChatTemplateError('the chat template cannot continue this conversation', cause);
  }
  const kept = rendered.slice(0, end);
  return rendered.startsWith(END_MARK, end) ? kept : kept.trimEnd();
}

function compile(template: string): Program {
  try {
    return parse(tokenize(template, { lstrip_blocks: true, trim_blocks: true }));
  } catch (error) {
    throw new ChatTemplateError('the chat template cannot be read', error);
  }
}

function run(program: Program, variables: Readonly<Record<string, unknown>>): string {
  try {
    const environment = new Environment();
    for (const [name, value] of Object.entries(variables)) environment.set(name, value);
    const result = new PythonInterpreter(environment).run(program);
    return String(result.value);
  } catch (error) {
    throw new ChatTemplateError('the chat template refuses this conversation', error);
  }
}

function globals(now: Date): Record<string, unknown> {
  return {
    true: true,
    false: false,
    none: null,
    True: true,
    False: false,
    None: null,
    range,
    raise_exception: (message: unknown) => {
      throw new Error(String(message));
    },
    strftime_now: (format: unknown) => formatTime(now, String(format)),
    // Some templates do not ask for the time, and write a fixed day where they are not given one.
    date_string: formatTime(now, '%d %b %Y'),
    datetime: formatTime(now, '%b %d %Y'),
  };
}

function range(first: number, second?: number, step = 1): number[] {
  const [start, end] = second === undefined ? [0, first] : [first, second];
  if (step === 0) throw new Error('range() needs a step other than zero');
  const numbers: number[] = [];
  for (let value = start; step > 0 ? value < end : value > end; value += step) numbers.push(value);
  return numbers;
}

const months = 'January February March April May June July August September October November December'.split(
  ' ',
);
const weekdays = 'Sunday Monday Tuesday Wednesday Thursday Friday Saturday'.split(' ');

const twoDigits = (value: number): string => String(value).padStart(2, '0');
const monthName = (time: Date): string => months[time.getMonth()] as string;
const weekdayName = (time: Date): string => weekdays[time.getDay()] as string;
const hourOfTwelve = (time: Date): number => time.getHours() % 12 || 12;

const directives: Readonly<Record<string, (time: Date) => string>> = {
  Y: (time) => String(time.getFullYear()),
  y: (time) => twoDigits(time.getFullYear() % 100),
  m: (time) => twoDigits(time.getMonth() + 1),
  B: monthName,
  b: (time) => monthName(time).slice(0, 3),
  d: (time) => twoDigits(time.getDate()),
  e: (time) => String(time.getDate()).padStart(2, ' '),
  A: weekdayName,
  a: (time) => weekdayName(time).slice(0, 3),
  H: (time) => twoDigits(time.getHours()),
  I: (time) => twoDigits(hourOfTwelve(time)),
  M: (time) => twoDigits(time.getMinutes()),
  S: (time) => twoDigits(time.getSeconds()),
  p: (time) => (time.getHours() < 12 ? 'AM' : 'PM'),
  '%': () => '%',
};

/**
 * Python's strftime in local time and English. `%-d` drops a leading zero; an unknown directive is an error that
 * names it.
 */
export function formatTime(time: Date, format: string): string {
  return format.replace(/%(-?)(.?)/gsu, (whole, bare: string, name: string) => {
    const directive = directives[name];
    if (directive === undefined) throw new Error(`strftime_now does not know ${JSON.stringify(whole)}`);
    return bare === '-' ? directive(time).replace(/^[0 ](?=.)/, '') : directive(time);
  });
}
