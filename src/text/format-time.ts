// Dates as chat templates ask for them: the directives of strftime that appear in them, in English.

const months = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
] as const;
const weekdays = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'] as const;

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

/** Local time. `%-d` drops a leading zero; an unknown directive is an error that names it. */
export function formatTime(time: Date, format: string): string {
  return format.replace(/%(-?)(.?)/gsu, (whole, bare: string, name: string) => {
    const directive = directives[name];
    if (directive === undefined) throw new Error(`strftime_now does not know ${JSON.stringify(whole)}`);
    return bare === '-' ? directive(time).replace(/^[0 ](?=.)/, '') : directive(time);
  });
}
