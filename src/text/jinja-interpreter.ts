// Extends the Jinja library by what public templates use of Python's: filters on undefined values, dictionaries with
// integer keys, tuples that are taken apart, and str.format.

import { Environment, Interpreter, type parse } from '@huggingface/jinja';

// The library does not export these types.
interface Node {
  readonly type: string;
}

interface Value {
  readonly type: string;
  readonly value: unknown;
  readonly builtins: Map<string, Value>;
}

type Scope = InstanceType<typeof Environment>;

const LibraryInterpreter = Interpreter as unknown as new (
  globals: Scope,
) => {
  evaluate(node: Node | undefined, scope: Scope): Value;
  run(program: ReturnType<typeof parse>): Value;
};

interface FilterNode extends Node {
  readonly operand: Node;
  readonly filter: Node & { readonly value?: string; readonly callee?: { readonly value: string } };
}

interface MemberNode extends Node {
  readonly object: Node;
  readonly property: Node & { readonly value?: unknown };
  readonly computed: boolean;
}

interface BinaryNode extends Node {
  readonly operator: { readonly value: string };
  readonly left: Node;
  readonly right: Node;
}

interface ObjectNode extends Node {
  readonly value: ReadonlyMap<Node, Node>;
}

/** An evaluated node: the library would evaluate it again. */
interface KnownNode extends Node {
  readonly known: Value;
}

const choosingFilters: readonly string[] = ['select', 'reject', 'selectattr', 'rejectattr', 'map'];
/** An undefined value is an empty list to these. */
const listFilters: readonly string[] = [
  'list',
  'length',
  'count',
  'sort',
  'reverse',
  'unique',
  'items',
  'dictsort',
];
/** An undefined value is an empty text to these. */
const textFilters: readonly string[] = ['string', 'trim', 'upper', 'lower', 'capitalize', 'title', 'replace'];

export class PythonInterpreter extends LibraryInterpreter {
  override evaluate(node: Node | undefined, scope: Scope): Value {
    switch (node?.type) {
      case 'Known':
        return (node as KnownNode).known;
      case 'FilterExpression':
        return this.#filter(node as FilterNode, scope);
      case 'MemberExpression':
        return this.#member(node as MemberNode, scope);
      case 'BinaryExpression':
        return this.#binary(node as BinaryNode, scope);
      case 'ObjectLiteral':
        return this.#object(node as ObjectNode, scope);
      case 'TupleLiteral':
        // The library takes no tuple apart that does not call itself a list.
        return Object.assign(super.evaluate(node, scope), { type: 'ArrayValue' });
      default:
        return super.evaluate(node, scope);
    }
  }

  #filter(node: FilterNode, scope: Scope): Value {
    const operand = this.evaluate(node.operand, scope);
    const { type } = operand;
    const name = node.filter.value ?? node.filter.callee?.value ?? '';
    const isUndefined = type === 'UndefinedValue';
    if (isUndefined || type === 'NullValue') {
      if (choosingFilters.includes(name)) return runtimeValue([]);
      if (textFilters.includes(name))
        return this.#filtered(node, runtimeValue(isUndefined ? '' : 'None'), scope);
      if (isUndefined && name === 'join') return runtimeValue('');
      if (isUndefined && listFilters.includes(name))
        return runtimeValue(/^(length|count)$/.test(name) ? 0 : []);
    }
    if (name === 'items' && numbersOf(operand) !== undefined) return pairsOf(operand);
    return this.#filtered(node, operand, scope);
  }

  #filtered(node: FilterNode, operand: Value, scope: Scope): Value {
    return super.evaluate({ ...node, operand: known(operand) } as Node, scope);
  }

  #member(node: MemberNode, scope: Scope): Value {
    const object = this.evaluate(node.object, scope);
    if (object.type === 'StringValue' && !node.computed && node.property.value === 'format') {
      return functionOf((args) => formatText(String(object.value), args));
    }
    const looksUp =
      node.computed && node.property.type !== 'SliceExpression' && object.type === 'ObjectValue';
    const property = looksUp ? known(asKey(this.evaluate(node.property, scope))) : node.property;
    return super.evaluate({ ...node, object: known(object), property } as Node, scope);
  }

  #binary(node: BinaryNode, scope: Scope): Value {
    if (!/^(not )?in$/.test(node.operator.value)) return super.evaluate(node, scope);
    const left = this.evaluate(node.left, scope);
    const right = this.evaluate(node.right, scope);
    const wanted = right.type === 'ObjectValue' ? asKey(left) : left;
    return super.evaluate({ ...node, left: known(wanted), right: known(right) } as Node, scope);
  }

  #object(node: ObjectNode, scope: Scope): Value {
    const numbers = new Set<string>();
    const entries = [...node.value].map(([keyNode, valueNode]): [Node, Node] => {
      const key = this.evaluate(keyNode, scope);
      if (key.type === 'IntegerValue') numbers.add(String(key.value));
      return [known(asKey(key)), valueNode];
    });
    const object = super.evaluate({ ...node, value: new Map(entries) } as Node, scope);
    if (numbers.size > 0) numberKeys(object, numbers);
    return object;
  }
}

/** On a dictionary: the keys, which the library keeps as texts, that are integers. */
const NUMBERS = Symbol('keys that are numbers');

function numbersOf(object: Value): ReadonlySet<string> | undefined {
  return (object as { readonly [NUMBERS]?: ReadonlySet<string> })[NUMBERS];
}

/** Restores integer keys. */
function numberKeys(object: Value, numbers: ReadonlySet<string>): void {
  const keys = () => listOf(keysOf(object));
  Object.assign(object, { [NUMBERS]: numbers, keys, items: () => pairsOf(object) });
  object.builtins.set(
    'get',
    functionOf(
      ([key, fallback]) => entriesOf(object).get(String(key?.value)) ?? fallback ?? runtimeValue(null),
    ),
  );
  object.builtins.set(
    'dictsort',
    functionOf((args) => {
      if (args.length > 0)
        throw new Error('dictsort with options is not supported for keys that are numbers');
      const number = (pair: Value) => Number((pair.value as Value[])[0]?.value);
      return listOf((pairsOf(object).value as Value[]).sort((a, b) => number(a) - number(b)));
    }),
  );
}

function entriesOf(object: Value): ReadonlyMap<string, Value> {
  return object.value as ReadonlyMap<string, Value>;
}

function keysOf(object: Value): Value[] {
  const numbers = numbersOf(object);
  return [...entriesOf(object).keys()].map((key) => runtimeValue(numbers?.has(key) ? Number(key) : key));
}

function pairsOf(object: Value): Value {
  const values = [...entriesOf(object).values()];
  return listOf(keysOf(object).map((key, at) => listOf([key, values[at] as Value])));
}

function asKey(value: Value): Value {
  return value.type === 'IntegerValue' ? runtimeValue(String(value.value)) : value;
}

/** The library converts plain values only where variables are set. */
function runtimeValue(plain: unknown): Value {
  return new Environment().set('value', plain);
}

function functionOf(call: (args: Value[]) => Value): Value {
  return Object.assign(
    runtimeValue(() => null),
    { value: call },
  );
}

function listOf(values: readonly Value[]): Value {
  return Object.assign(runtimeValue([]), { value: values });
}

function known(value: Value): KnownNode {
  return { type: 'Known', known: value };
}

/** Python's str.format by order, number or name, without format specifications. */
function formatText(text: string, args: readonly Value[]): Value {
  const last = args.at(-1);
  const named = last?.type === 'KeywordArgumentsValue' ? entriesOf(last) : new Map<string, Value>();
  let next = 0;
  const formatted = text.replace(/\{\{|\}\}|\{([^{}]*)\}|[{}]/g, (found, field?: string) => {
    if (found === '{{' || found === '}}') return found.charAt(0);
    if (field === undefined) throw new Error(`format: a single '${found}' in ${JSON.stringify(text)}`);
    if (!/^\w*$/.test(field)) throw new Error(`format: '{${field}}' is not supported`);
    const place = field === '' ? next++ : Number(field);
    const value = Number.isInteger(place) ? args[place] : named.get(field);
    if (value === undefined) throw new Error(`format: there is nothing for '{${field}}'`);
    return spelled(value);
  });
  return runtimeValue(formatted);
}

function spelled(given: Value): string {
  const { type, value } = given;
  switch (type) {
    case 'NullValue':
      return 'None';
    case 'UndefinedValue':
      return '';
    case 'BooleanValue':
      return value === true ? 'True' : 'False';
    case 'StringValue':
    case 'IntegerValue':
    case 'FloatValue':
      return String(given);
    default:
      throw new Error('format: only texts, numbers, booleans and none can be written');
  }
}
