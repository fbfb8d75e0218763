// Answers that an expression allows, without a compiler: free text is `~`, and a value of a schema is `$` and its type.

import type { Expression } from '../../src/grammar/expression.ts';

/** One of them, by choices from 0 up to `count`. */
export function derive(expression: Expression, pick: (count: number) => number): string {
  switch (expression.kind) {
    case 'sequence':
      return expression.parts.map((part) => derive(part, pick)).join('');
    case 'choice': {
      const option = expression.options[pick(expression.options.length)];
      if (option === undefined) throw new Error('a choice without options');
      return derive(option, pick);
    }
    case 'repeat': {
      const { part, least, most = least + 2 } = expression;
      const times = least + pick(most - least + 1);
      return Array.from({ length: times }, () => derive(part, pick)).join('');
    }
    case 'characters':
      return String.fromCodePoint(expression.ranges[pick(expression.ranges.length)]?.[0] ?? 0);
    default:
      return atom(expression);
  }
}

export function allows(expression: Expression, answer: string): boolean {
  return ends(expression, answer, new Set([0])).has(answer.length);
}

/** Where the expression may end, of what may begin at any of these places. */
function ends(expression: Expression, answer: string, starts: ReadonlySet<number>): ReadonlySet<number> {
  switch (expression.kind) {
    case 'sequence':
      return expression.parts.reduce((at, part) => ends(part, answer, at), starts);
    case 'choice':
      return new Set(expression.options.flatMap((option) => [...ends(option, answer, starts)]));
    case 'repeat': {
      const { part, least, most = least + answer.length } = expression;
      const found = new Set<number>();
      let at = starts;
      for (let times = 0; times <= most && at.size > 0; times++) {
        if (times >= least) for (const place of at) found.add(place);
        at = ends(part, answer, at);
      }
      return found;
    }
    case 'characters': {
      const within = (point: number) =>
        expression.ranges.some(([first, last]) => point >= first && point <= last);
      return new Set([...starts].filter((at) => within(answer.codePointAt(at) ?? -1)).map((at) => at + 1));
    }
    default: {
      const text = atom(expression);
      return new Set([...starts].filter((at) => answer.startsWith(text, at)).map((at) => at + text.length));
    }
  }
}

function atom(expression: Expression): string {
  if (expression.kind === 'text' || expression.kind === 'mark') return expression.text;
  if (expression.kind === 'free') return '~';
  if (expression.kind !== 'schema') throw new Error(`no format is made of ${expression.kind}`);
  return `$${String((expression.schema as { type?: unknown }).type ?? 'any')}`;
}
