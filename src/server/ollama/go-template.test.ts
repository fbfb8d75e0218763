import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { goTemplate, TemplateError } from './go-template.ts';
import { templatedPrompt } from './prompt-template.ts';

interface Golden {
  readonly template: string;
  readonly data: Record<string, unknown>;
  readonly text: string;
}

/** Rendered by Go's text/template, with Ollama's function json (tools/go-templates). */
const goldens = JSON.parse(
  readFileSync(new URL('../../../test/golden/go-templates.json', import.meta.url), 'utf8'),
) as Golden[];

describe('a template', () => {
  it.each(goldens.map(({ template, data, text }) => [template, data, text] as const))(
    'is rendered as Go renders it: %j',
    (template, data, text) => {
      expect(goTemplate(template)(data)).toBe(text);
    },
  );

  it.each([
    ['{{ if .A }}', /no end/],
    ['{{ end }}', /without a beginning/],
    ['{{ .A', /not closed/],
    ['{{ nothing .A }}', /no function nothing/],
    ['{{ $x }}', /no variable \$x/],
    ['{{ template "a" }}', /not supported/],
    ['{{ (.A }}', /parenthesis/],
    ['{{ }}', /empty/],
    ['{{ .A ~ }}', /cannot be read/],
  ])('is refused where it is none: %s', (source, problem) => {
    expect(() => goTemplate(source)({})).toThrow(TemplateError);
    expect(() => goTemplate(source)({})).toThrow(problem);
  });

  it('cannot hold up the server', () => {
    const messages = Array.from({ length: 2000 }, () => ({ role: 'user', content: 'x'.repeat(1000) }));
    const nested = `${'{{ range $.Messages }}'.repeat(5)}a${'{{ end }}'.repeat(5)}`;
    expect(() => templatedPrompt(nested, messages)).toThrow(/^template: takes too long/);
    const long = '{{ range .Messages }}{{ range $.Messages }}{{ .Content }}{{ end }}{{ end }}';
    expect(() => templatedPrompt(long, messages)).toThrow(/^template: makes a prompt that is too long/);
    expect(() => templatedPrompt('{{'.repeat(8192), messages)).toThrow(/^template: an action is not closed/);
    expect(() => templatedPrompt(`{{ ${'('.repeat(8000)} }}`, messages)).toThrow(/^template: /);
    expect(() => templatedPrompt('x'.repeat(20_000), messages)).toThrow(/^template: is longer than/);
  });

  it('reads nothing but what it is given', () => {
    expect(goTemplate('{{ .constructor }}{{ .System.length }}')({ System: 'a' })).toBe('');
  });
});

describe('a prompt', () => {
  const messages = [
    { role: 'system', content: 'S' },
    { role: 'user', content: 'a' },
    { role: 'assistant', content: 'b' },
    { role: 'user', content: 'c' },
  ];

  it('is rendered turn by turn, and ends where the answer begins', () => {
    const template = '{{ if .System }}[{{ .System }}]{{ end }}<{{ .Prompt }}>{{ .Response }};';
    expect(templatedPrompt(template, messages)).toBe('[S]<a>b;<c>');
  });

  it('is rendered at once where the template knows of messages', () => {
    const template = '{{ range .Messages }}{{ .Role }}={{ .Content }} {{ end }}>{{ .Response }}!';
    expect(templatedPrompt(template, messages)).toBe('system=S user=a assistant=b user=c >');
  });
});
