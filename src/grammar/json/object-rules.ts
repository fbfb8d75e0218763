// Objects: named properties in their order, then others, by what their names are.

import { tooLarge } from '../grammar-error.ts';
import {
  accepts,
  anyText,
  type CharacterDfa,
  difference,
  intersection,
  textsDfa,
  union,
} from '../regular/character-dfa.ts';
import type { Node } from '../rules.ts';
import { all, largest, type Plain, propertyOf, smallest, textsOf } from './plain-schemas.ts';
import type { RuleMaker } from './rule-maker.ts';
import type { Conjunction, Schema, SchemaObject } from './schema.ts';
import { objectNode, type Property } from './shapes.ts';
import { patternDfa } from './strings.ts';

const MAX_KEY_CLASSES = 64;

/** Properties of these names. */
interface NameClass {
  readonly names: CharacterDfa;
  readonly schemas: Conjunction;
}

export function objectRule(plain: Plain, rules: RuleMaker): Node {
  const { document, book, strings } = rules;
  const names = propertyNames(plain);
  const required = new Set(all(plain, 'required').flat());
  const nameRules = all(plain, 'propertyNames');
  const schemasOf = (name: string): Conjunction =>
    rules.isValid(name, nameRules) ? propertyOf(plain, name) : [false];
  const classes = otherNames(plain, names, nameRules, rules);
  const others = classes.map(({ names: one, schemas }) => ({
    key: keyOf(one, rules),
    value: rules.node(schemas),
  }));
  const least = largest(plain, 'minProperties');
  const most = smallest(plain, 'maxProperties');
  if (least > Math.max(1, required.size) && others.length > 0)
    document.cannotEnforce('minProperties', 'above 1 where properties may have any name');
  const shape = (more: ReadonlyMap<string, Schema>, last?: readonly Omit<Property, 'required'>[]): Node => {
    const properties = names.map((name): Property => {
      const own = more.get(name);
      return {
        key: strings.key(name),
        value: rules.node(own === undefined ? schemasOf(name) : [...schemasOf(name), own]),
        required: required.has(name) || own !== undefined,
      };
    });
    return (
      document.enforced("'maxProperties'", () =>
        objectNode(book, { properties, others, least, most, last }),
      ) ?? objectNode(book, { properties, others, least: Math.min(least, 1), most: undefined, last })
    );
  };
  const [exception, ...more] = exceptionsOf(plain, rules);
  if (more.length > 0) document.cannotEnforce('not', 'of several keywords about unnamed properties');
  if (exception === undefined) return shape(new Map());
  const named = names
    .filter((name) => accepts(exception.names, name))
    .map((name) => shape(new Map([[name, exception.schema]])));
  const last = classes.flatMap(({ names: own, schemas }) => {
    const both = intersection(own, exception.names);
    if (both.states.length === 0) return [];
    return [{ key: keyOf(both, rules), value: rules.node([...schemas, exception.schema]) }];
  });
  return { kind: 'choice', options: [...named, ...(last.length > 0 ? [shape(new Map(), last)] : [])] };
}

/** A property that there must be. It comes last among those without a name of their own: were it repeated, the last would count. */
interface Exception {
  readonly names: CharacterDfa;
  readonly schema: Schema;
}

function exceptionsOf(plain: Plain, rules: RuleMaker): Exception[] {
  const { negations } = rules;
  return all(plain, 'fails').flatMap((fails): Exception[] => {
    const {
      properties = new Map(),
      patternProperties = new Map(),
      additionalProperties,
      propertyNames: named,
    } = fails;
    const patterns = [...patternProperties.keys()].map((one: string) => patternDfa(one));
    if (additionalProperties !== undefined) {
      const known = patterns.reduce(union, textsDfa([...properties.keys()]));
      return [{ names: difference(anyText, known), schema: negations.not(additionalProperties) }];
    }
    if (named !== undefined) return [{ names: allowedNames([negations.not(named)], rules), schema: true }];
    return [...patternProperties.values()].map((one: Schema, at) => ({
      names: patterns[at] as CharacterDfa,
      schema: negations.not(one),
    }));
  });
}

function keyOf(names: CharacterDfa, rules: RuleMaker): Node {
  return names === anyText ? rules.strings.any(rules.book, 0, undefined) : rules.language(names);
}

/** Unnamed properties, by the patterns that their names match. */
function otherNames(
  plain: Plain,
  names: readonly string[],
  nameRules: Conjunction,
  rules: RuleMaker,
): NameClass[] {
  const patterns = [
    ...new Set(
      plain.flatMap(({ patternProperties }) => [...(patternProperties ?? new Map()).keys()] as string[]),
    ),
  ];
  const isClosed = plain.some(({ additionalProperties }) => additionalProperties === false);
  if (isClosed && patterns.length === 0) return [];
  if (patterns.length === 0 && names.length === 0 && nameRules.length === 0)
    return [{ names: anyText, schemas: othersOf(plain, []) }];
  let classes: { dfa: CharacterDfa; matched: string[] }[] = [
    { dfa: difference(allowedNames(nameRules, rules), textsDfa(names)), matched: [] },
  ];
  for (const pattern of patterns) {
    const dfa = patternDfa(pattern);
    classes = classes.flatMap(({ dfa: rest, matched }) => [
      { dfa: intersection(rest, dfa), matched: [...matched, pattern] },
      { dfa: difference(rest, dfa), matched },
    ]);
    classes = classes.filter(({ dfa: { states } }) => states.length > 0);
    if (classes.length > MAX_KEY_CLASSES) throw tooLarge("'patternProperties'");
  }
  return classes.flatMap(({ dfa, matched }) => {
    const schemas = othersOf(plain, matched);
    return dfa.states.length === 0 || schemas.includes(false) ? [] : [{ names: dfa, schemas }];
  });
}

function allowedNames(nameRules: Conjunction, rules: RuleMaker): CharacterDfa {
  if (nameRules.length === 0) return anyText;
  const found = rules.document.enforced("'propertyNames'", () =>
    textsOf(rules.alternatives(nameRules), (text) => rules.isValid(text, nameRules)),
  );
  return found ?? anyText;
}

function othersOf(plain: Plain, matched: readonly string[]): Conjunction {
  return plain.flatMap(({ patternProperties, additionalProperties }: SchemaObject): Schema[] => {
    const own = matched.flatMap((pattern) => patternProperties?.get(pattern) ?? []);
    if (matched.some((pattern) => patternProperties?.has(pattern) === true)) return own;
    return additionalProperties === undefined ? [] : [additionalProperties];
  });
}

/** In the order of the schemas; required ones without a schema last. */
function propertyNames(plain: Plain): string[] {
  const named = plain.flatMap(({ properties }) => [...(properties ?? new Map<string, Schema>()).keys()]);
  return [...new Set([...named, ...all(plain, 'required').flat()])];
}
