// Numbers by their digits: `multipleOf` means what is written, not what a double makes of it.

export interface Decimal {
  readonly whole: string;
  readonly fraction: string;
}

/** The shortest digits, as JavaScript writes them, without an exponent. */
export function decimalOf(value: number): Decimal {
  const [mantissa = '0', power = '0'] = String(value).split('e');
  const [whole = '0', part = ''] = mantissa.split('.');
  const shift = Number(power);
  const all = whole + part;
  const at = whole.length + shift;
  const padded = at <= 0 ? '0'.repeat(1 - at) + all : all.padEnd(at, '0');
  const cut = Math.max(at, 1);
  return {
    whole: padded.slice(0, cut).replace(/^0+(?=\d)/, ''),
    fraction: padded.slice(cut).replace(/0+$/, ''),
  };
}

export function isMultiple(value: number, divisor: number): boolean {
  const [a, b] = [decimalOf(Math.abs(value)), decimalOf(divisor)];
  const places = Math.max(a.fraction.length, b.fraction.length);
  const scaled = ({ whole, fraction }: Decimal) => BigInt(whole + fraction.padEnd(places, '0'));
  return scaled(a) % scaled(b) === 0n;
}
