// Templates as Ollama has them, in the language of Go's text/template: what prompts are written with, without definitions of
// further templates. `prompt-template.ts` says what is rendered.

export class TemplateError extends Error {
  override readonly name = 'TemplateError';
}

type Node =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'print'; readonly pipeline: Pipeline }
  | {
      readonly kind: 'if' | 'with';
      readonly branches: readonly Branch[];
      readonly otherwise: readonly Node[];
    }
  | { readonly kind: 'range'; readonly branches: readonly Branch[]; readonly otherwise: readonly Node[] };

interface Branch {
  readonly pipeline: Pipeline;
  readonly body: readonly Node[];
}

interface Pipeline {
  /** `$name`s that it sets; two where a range has the index, too. */
  readonly sets: readonly string[];
  readonly commands: readonly (readonly Operand[])[];
}

type Operand =
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'path'; readonly from: string; readonly fields: readonly string[] }
  | { readonly kind: 'nested'; readonly pipeline: Pipeline; readonly fields: readonly string[] }
  | { readonly kind: 'function'; readonly name: string };

interface Scope {
  readonly dot: unknown;
  readonly variables: Map<string, unknown>;
  readonly budget: Budget;
}

/** What is left of one rendering: ranges within ranges could go on for ever, on the thread that serves requests. */
interface Budget {
  nodes: number;
  characters: number;
}

const MAX_NODES = 200_000;
const MAX_CHARACTERS = 16 * 1024 * 1024;
/** Reading takes quadratic time at worst. */
export const MAX_TEMPLATE = 16_384;

export type GoTemplate = (data: Readonly<Record<string, unknown>>) => string;

export function goTemplate(source: string): GoTemplate {
  if (source.length > MAX_TEMPLATE) throw new TemplateError(`is longer than ${MAX_TEMPLATE} characters`);
  const nodes = new TemplateReader(source).nodes();
  return (data) => {
    const budget = { nodes: MAX_NODES, characters: MAX_CHARACTERS };
    return render(nodes, { dot: data, variables: new Map([['$', data]]), budget });
  };
}

interface Action {
  readonly word: string;
  readonly rest: string;
}

/** Splits the source into text and actions, and nests them. */
class TemplateReader {
  readonly #pieces: (string | Action)[] = [];
  #at = 0;

  constructor(source: string) {
    let from = 0;
    let trims = false;
    for (const match of source.matchAll(
      /\{\{(-(?=\s))?((?:"(?:\\.|[^"\\])*"|`[^`]*`|[^"`])*?)((?<=\s)-)?\}\}/g,
    )) {
      const [all, before, inside = '', after] = match;
      this.#text(source.slice(from, match.index), trims, before !== undefined);
      const action = inside.trim();
      const [, word = '', rest = ''] =
        /^(if|else|range|with|end|break|continue|define|template|block)?(?![\w.])(.*)$/s.exec(action) ?? [];
      if (!action.startsWith('/*')) this.#pieces.push({ word, rest: (word === '' ? action : rest).trim() });
      from = match.index + all.length;
      trims = after !== undefined;
    }
    const tail = source.slice(from);
    if (tail.includes('{{')) throw new TemplateError('an action is not closed');
    this.#text(tail, trims, false);
  }

  #text(text: string, trimsStart: boolean, trimsEnd: boolean): void {
    const started = trimsStart ? text.trimStart() : text;
    const kept = trimsEnd ? started.trimEnd() : started;
    if (kept !== '') this.#pieces.push(kept);
  }

  nodes(): Node[] {
    const { body, end } = this.#body();
    if (end !== undefined) throw new TemplateError(`there is an ${end.word} without a beginning`);
    return body;
  }

  #body(): { readonly body: Node[]; readonly end: Action | undefined } {
    const body: Node[] = [];
    for (;;) {
      const piece = this.#pieces[this.#at++];
      if (piece === undefined) return { body, end: undefined };
      if (typeof piece === 'string') body.push({ kind: 'text', text: piece });
      else if (piece.word === 'end' || piece.word === 'else') return { body, end: piece };
      else if (piece.word === '') body.push({ kind: 'print', pipeline: readPipeline(piece.rest) });
      else if (piece.word === 'if' || piece.word === 'with' || piece.word === 'range') {
        body.push(this.#block(piece.word, piece.rest));
      } else throw new TemplateError(`${piece.word} is not supported`);
    }
  }

  #block(kind: 'if' | 'with' | 'range', first: string): Node {
    const branches: Branch[] = [];
    let condition: string | undefined = first;
    for (;;) {
      const { body, end } = this.#body();
      if (end === undefined) throw new TemplateError(`${kind} has no end`);
      if (condition === undefined) {
        if (end.word !== 'end') throw new TemplateError(`${kind} has two else`);
        return { kind, branches, otherwise: body };
      }
      branches.push({ pipeline: readPipeline(condition), body });
      if (end.word === 'end') return { kind, branches, otherwise: [] };
      condition = end.rest === '' ? undefined : end.rest.replace(/^(if|with)\s/, '');
    }
  }
}

const TOKEN =
  /\s+|("(?:\\.|[^"\\])*")|`([^`]*)`|(-?\d+(?:\.\d+)?)|(:=|=|[|(),])|(\$\w*(?:\.\w+)*|\.(?:\w+(?:\.\w+)*)?)|([A-Za-z_]\w*)/y;

function tokensOf(source: string): string[] {
  const tokens: string[] = [];
  for (let at = 0; at < source.length; at = TOKEN.lastIndex) {
    TOKEN.lastIndex = at;
    const [token] = TOKEN.exec(source) ?? [];
    if (token === undefined) throw new TemplateError(`'${source.slice(at, at + 20)}' cannot be read`);
    if (token.trim() !== '') tokens.push(token);
  }
  return tokens;
}

function readPipeline(source: string): Pipeline {
  const tokens = tokensOf(source);
  const assigned = tokens.findIndex((token) => token === ':=' || token === '=');
  const sets = assigned < 0 ? [] : tokens.splice(0, assigned + 1).filter((token) => token.startsWith('$'));
  const pipeline = pipelineOf(tokens, sets);
  if (tokens.length > 0) throw new TemplateError(`'${tokens[0]}' is out of place`);
  return pipeline;
}

function pipelineOf(tokens: string[], sets: readonly string[] = []): Pipeline {
  const commands: Operand[][] = [[]];
  while (tokens.length > 0 && tokens[0] !== ')') {
    const token = tokens.shift() as string;
    if (token === '|') commands.push([]);
    else commands.at(-1)?.push(operandOf(token, tokens));
  }
  if (commands.some((one) => one.length === 0)) throw new TemplateError('an action is empty');
  return { sets, commands };
}

const literals: Readonly<Record<string, unknown>> = { true: true, false: false, nil: undefined };

function operandOf(token: string, rest: string[]): Operand {
  if (token === '(') {
    const pipeline = pipelineOf(rest);
    if (rest.shift() !== ')') throw new TemplateError('a parenthesis is not closed');
    const fields =
      rest[0]?.startsWith('.') && rest[0] !== '.' ? (rest.shift() as string).slice(1).split('.') : [];
    return { kind: 'nested', pipeline, fields };
  }
  if (token.startsWith('"')) return { kind: 'value', value: unquoted(token) };
  if (token.startsWith('`')) return { kind: 'value', value: token.slice(1, -1) };
  if (/^-?\d/.test(token)) return { kind: 'value', value: Number(token) };
  if (token.startsWith('.') || token.startsWith('$')) {
    const [from = '', ...fields] = token.split('.');
    return { kind: 'path', from, fields: fields.filter((field) => field !== '') };
  }
  if (Object.hasOwn(literals, token)) return { kind: 'value', value: literals[token] };
  if (!Object.hasOwn(functions, token)) throw new TemplateError(`there is no function ${token}`);
  return { kind: 'function', name: token };
}

function unquoted(token: string): string {
  try {
    return JSON.parse(token) as string;
  } catch {
    throw new TemplateError(`${token} is no text`);
  }
}

function render(nodes: readonly Node[], scope: Scope): string {
  return nodes.map((node) => renderNode(node, scope)).join('');
}

function renderNode(node: Node, scope: Scope): string {
  if (--scope.budget.nodes < 0) throw new TemplateError('takes too long');
  if (node.kind === 'text') return spent(node.text, scope);
  if (node.kind === 'print') {
    const value = evaluate(node.pipeline, scope);
    return node.pipeline.sets.length > 0 ? '' : spent(printed(value), scope);
  }
  for (const { pipeline, body } of node.branches) {
    const inner: Scope = { ...scope, variables: new Map(scope.variables) };
    const value = evaluate(pipeline, inner);
    if (node.kind === 'range') {
      const items = entriesOf(value);
      if (items.length > 0)
        return items.map((item) => render(body, itemScope(pipeline, inner, item))).join('');
    } else if (isTrue(value)) return render(body, node.kind === 'with' ? { ...inner, dot: value } : inner);
  }
  return render(node.otherwise, scope);
}

function spent(text: string, { budget }: Scope): string {
  budget.characters -= text.length;
  if (budget.characters < 0) throw new TemplateError('makes a prompt that is too long');
  return text;
}

function itemScope({ sets }: Pipeline, scope: Scope, [key, value]: readonly [unknown, unknown]): Scope {
  const variables = new Map(scope.variables);
  const [first, second] = sets;
  if (first !== undefined) variables.set(first, second === undefined ? value : key);
  if (second !== undefined) variables.set(second, value);
  return { ...scope, dot: value, variables };
}

function entriesOf(value: unknown): readonly (readonly [unknown, unknown])[] {
  if (Array.isArray(value)) return [...value.entries()];
  // Go goes through maps by their sorted keys.
  return typeof value === 'object' && value !== null
    ? Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
    : [];
}

function evaluate({ sets, commands }: Pipeline, scope: Scope): unknown {
  let value: unknown;
  for (const [at, [first, ...rest]] of commands.entries()) {
    const given = [...rest.map((operand) => operandValue(operand, scope)), ...(at === 0 ? [] : [value])];
    if (first?.kind === 'function') value = functions[first.name]?.(...given);
    else if (first !== undefined && given.length === 0) value = operandValue(first, scope);
    else throw new TemplateError('a value is no function, and takes nothing');
  }
  if (sets.length === 1 && sets[0] !== undefined) scope.variables.set(sets[0], value);
  return value;
}

function operandValue(operand: Operand, scope: Scope): unknown {
  switch (operand.kind) {
    case 'value':
      return operand.value;
    case 'function':
      return functions[operand.name]?.();
    case 'nested':
      return fieldOf(evaluate(operand.pipeline, scope), operand.fields);
    case 'path': {
      const { from, fields } = operand;
      if (from !== '' && !scope.variables.has(from)) throw new TemplateError(`there is no variable ${from}`);
      return fieldOf(from === '' ? scope.dot : scope.variables.get(from), fields);
    }
  }
}

function fieldOf(value: unknown, fields: readonly string[]): unknown {
  return fields.reduce<unknown>(
    (held, field) =>
      typeof held === 'object' && held !== null && Object.hasOwn(held, field)
        ? (held as Record<string, unknown>)[field]
        : undefined,
    value,
  );
}

function isTrue(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.keys(value).length > 0;
  return Boolean(value);
}

function printed(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

type Values = readonly unknown[];

/** The first value that decides, or else the last one. */
function firstOrLast(given: Values, decides: (value: unknown) => boolean): unknown {
  const at = given.findIndex(decides);
  return given.at(at);
}

const length = (value: unknown) =>
  typeof value === 'string'
    ? Buffer.byteLength(value)
    : typeof value === 'object' && value !== null
      ? Object.keys(value).length
      : 0;

const functions: Readonly<Record<string, (...given: unknown[]) => unknown>> = {
  and: (...given: Values) => firstOrLast(given, (one) => !isTrue(one)),
  or: (...given: Values) => firstOrLast(given, isTrue),
  not: (given) => !isTrue(given),
  eq: (first, ...others) => others.some((other) => other === first),
  ne: (first, second) => first !== second,
  lt: (first, second) => (first as number) < (second as number),
  le: (first, second) => (first as number) <= (second as number),
  gt: (first, second) => (first as number) > (second as number),
  ge: (first, second) => (first as number) >= (second as number),
  len: length,
  index: (held, ...keys) => keys.reduce((value: unknown, key) => fieldOf(value, [String(key)]), held),
  slice: (held, from = 0, to) => (held as string | unknown[]).slice(from as number, to as number | undefined),
  print: (...given) => given.map(printed).join(''),
  // Go writes these as escapes.
  json: (given) =>
    JSON.stringify(given ?? null).replace(/[<>&]/g, (one) => `\\u00${one.charCodeAt(0).toString(16)}`),
  currentDate: () => new Date().toISOString().slice(0, 10),
};
