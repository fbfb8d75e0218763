// The parts of a report as one page: no script, nothing fetched, light or dark as the reader's system is.

import { dark, escapeText, light, type Palette } from './frame.ts';

export type NamedValue = readonly [name: string, value: string];

export interface RowTable {
  readonly headings: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

export function page(title: string, subtitle: string, parts: readonly string[]): string {
  return [
    '<!doctype html>',
    '<html lang="en"><head><meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="color-scheme" content="light dark">',
    `<title>${escapeText(title)}</title><style>${pageStyle}</style></head><body><main>`,
    `<header><h1>${escapeText(title)}</h1><p>${escapeText(subtitle)}</p></header>`,
    ...parts,
    '</main></body></html>',
    '',
  ].join('\n');
}

export function section(title: string, content: string): string {
  return content === '' ? '' : `<section><h2>${escapeText(title)}</h2>${content}</section>`;
}

export function cards(values: readonly NamedValue[]): string {
  const card = ([name, value]: NamedValue) =>
    `<div><dt>${escapeText(name)}</dt><dd>${escapeText(value)}</dd></div>`;
  return `<dl class="cards">${values.map(card).join('')}</dl>`;
}

export function list(values: readonly NamedValue[]): string {
  const row = ([name, value]: NamedValue) =>
    `<tr><th scope="row">${escapeText(name)}</th><td class="text">${escapeText(value)}</td></tr>`;
  return `<div class="scroll"><table class="list">${values.map(row).join('')}</table></div>`;
}

export function table(content: RowTable | undefined): string {
  if (content === undefined) return '';
  const { headings, rows } = content;
  const classes = headings.map((_, column) =>
    rows.every((row) => isNumber(row[column] ?? '')) ? '' : ' class="text"',
  );
  const head = headings.map((heading, n) => `<th scope="col"${classes[n]}>${escapeText(heading)}</th>`);
  const row = ([name = '', ...cells]: readonly string[]) => {
    const data = cells.map((cell, n) => `<td${classes[n + 1]}>${escapeText(cell)}</td>`);
    return `<tr><th scope="row">${escapeText(name)}</th>${data.join('')}</tr>`;
  };
  return `<div class="scroll"><table><thead><tr>${head.join('')}</tr></thead><tbody>${rows.map(row).join('')}</tbody></table></div>`;
}

function isNumber(text: string): boolean {
  return /^[–\d]/.test(text) && text.length < 20;
}

export function figures(plots: readonly string[]): string {
  return plots.length === 0
    ? ''
    : `<div class="plots">${plots.map((plot) => `<figure>${plot}</figure>`).join('')}</div>`;
}

const pageStyle = [
  ':root{color-scheme:light dark}',
  '*{box-sizing:border-box}',
  'body{margin:0;font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}',
  'main{max-width:1240px;margin:0 auto;padding:32px 20px 48px}',
  'h1{font-size:26px;line-height:1.25;margin:0;overflow-wrap:anywhere}',
  'h2{font-size:18px;margin:36px 0 12px}',
  'header p{margin:4px 0 20px}',
  '.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:0}',
  '.cards div{padding:12px 16px;border-radius:8px;border:1px solid}',
  '.cards dt{font-size:13px}',
  '.cards dd{margin:2px 0 0;font-size:21px;font-weight:600;font-variant-numeric:tabular-nums;white-space:nowrap}',
  '.note{padding:10px 14px;border-radius:8px;border:1px solid;margin:14px 0 0}',
  '.scroll{overflow-x:auto;border-radius:8px;border:1px solid}',
  'table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}',
  'th,td{padding:7px 14px;text-align:right;white-space:nowrap;border-bottom:1px solid}',
  'tr:last-child>*{border-bottom:0}thead tr:last-child>*{border-bottom:1px solid}',
  'th{font-weight:600}th[scope=row],thead th:first-child,.text{text-align:left}',
  '.list th{font-weight:400;width:1%}td.text{white-space:normal;overflow-wrap:anywhere}',
  '.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(320px,1fr));gap:0 20px}',
  '.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));gap:16px}',
  '.scroll+.plots{margin-top:16px}',
  'figure{margin:0;border-radius:8px;border:1px solid;overflow:hidden}',
  'figure svg{display:block;width:100%;height:auto}',
  coloursOf(light, '#f4f6f8'),
  `@media (prefers-color-scheme:dark){${coloursOf(dark, '#0b0e12')}}`,
].join('');

function coloursOf({ paper, ink, muted, grid }: Palette, desk: string): string {
  return [
    `body{background:${desk};color:${ink}}`,
    `.cards div,.note,.scroll,figure{background:${paper};border-color:${grid}}`,
    `th,td,thead tr:last-child>*{border-color:${grid}}`,
    `header p,.cards dt,.list th{color:${muted}}`,
  ].join('');
}
