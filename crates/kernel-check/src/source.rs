//! What a `.cu` file says about itself: its kernels, the architectures it is for, and why one cannot run on the CPU.

/// Where nothing else is said: the oldest GPU supported, the reference one, and the one after it.
const PORTABLE: &[&str] = &["sm_80", "sm_90a", "sm_100"];

/// In a comment: the architectures of the file, `// Architectures: sm_90a`.
const ARCHITECTURES: &str = "Architectures:";
/// In a comment above a kernel, or at the top of a file for all its kernels.
const NOT_ON_THE_CPU: &str = "Not on the CPU:";

/// A kernel file.
#[derive(Debug)]
pub struct KernelFile {
    pub name: String,
    pub text: String,
    pub architectures: Vec<String>,
    /// In the order of the file.
    pub kernels: Vec<Kernel>,
    /// Why none of the kernels can run on the CPU, where that is so.
    not_on_the_cpu: Option<String>,
}

/// An entry point.
#[derive(Debug, PartialEq, Eq)]
pub struct Kernel {
    pub name: String,
    /// From 1.
    pub line: usize,
    /// Why it cannot run on the CPU, if it cannot.
    pub not_on_the_cpu: Option<String>,
}

impl KernelFile {
    pub fn parse(name: String, text: String) -> Self {
        // The file's own comment ends at the first empty line; the next one may be a kernel's.
        let head: Vec<&str> = text
            .lines()
            .take_while(|line| line.starts_with("//"))
            .collect();
        let architectures =
            remark(&head, ARCHITECTURES).map_or_else(portable, |said| architectures(&said));
        let not_on_the_cpu = remark(&head, NOT_ON_THE_CPU);
        let kernels = kernels(&text, not_on_the_cpu.as_deref());
        Self {
            name,
            text,
            architectures,
            kernels,
            not_on_the_cpu,
        }
    }

    /// Adds a kernel that only the machine code shows, as a macro made it.
    pub fn add_compiled(&mut self, name: &str) {
        if self.kernels.iter().any(|kernel| kernel.name == name) {
            return;
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let names_it = |line: &str| line.split(|c| !is_word(c)).any(|word| word == name);
        let line = self.text.lines().position(names_it).map_or(1, |at| at + 1);
        self.kernels.push(Kernel {
            name: name.to_owned(),
            line,
            not_on_the_cpu: self.not_on_the_cpu.clone(),
        });
        self.kernels.sort_by_key(|kernel| kernel.line);
    }
}

/// The bare name of what `LAUNCH` was given: `gather` for `(gather<float, 4>)`.
pub fn launched_name(text: &str) -> &str {
    let text = text.trim().trim_start_matches('(');
    let end = text.find(['<', ')']).unwrap_or(text.len());
    let name = text[..end].trim();
    name.rsplit("::").next().unwrap_or(name)
}

fn portable() -> Vec<String> {
    PORTABLE.iter().map(|&arch| arch.to_owned()).collect()
}

/// `sm_90a` means that one; `from sm_80 on` and `sm_80 and newer` mean every portable one from there on.
fn architectures(said: &str) -> Vec<String> {
    let said = said.split(['.', ';']).next().unwrap_or(said);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let named: Vec<&str> = said
        .split(|c| !is_word(c))
        .filter(|word| word.starts_with("sm_"))
        .collect();
    let Some(&first) = named.first() else {
        return portable();
    };
    if !["from", "newer", "later"]
        .iter()
        .any(|word| said.contains(word))
    {
        return named.iter().map(|&arch| arch.to_owned()).collect();
    }
    portable()
        .into_iter()
        .filter(|arch| generation(arch) >= generation(first))
        .collect()
}

fn generation(arch: &str) -> u32 {
    let digits: String = arch.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// What follows `key` in a comment; a sentence may go on in the comment's next lines, up to a full stop or an empty one.
fn remark(comment: &[&str], key: &str) -> Option<String> {
    let mut lines = comment.iter().skip_while(|line| !line.contains(key));
    let (_, said) = lines.next()?.split_once(key)?;
    let mut said = said.trim().to_owned();
    for line in lines {
        let more = line.trim_start().trim_start_matches('/').trim();
        // `Shared: …` begins the next entry of a kernel's contract.
        if said.ends_with('.')
            || more.is_empty()
            || more
                .split_once(' ')
                .is_some_and(|(word, _)| word.ends_with(':'))
        {
            break;
        }
        said.push(' ');
        said.push_str(more);
    }
    Some(said.trim_end_matches('.').to_owned())
}

fn kernels(text: &str, reason_for_all: Option<&str>) -> Vec<Kernel> {
    const MARK: &str = "__global__";
    let code = without_comments(text);
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, _) in code.match_indices(MARK) {
        let line = code[..at].matches('\n').count();
        if in_macro(&lines, line) {
            continue;
        }
        let Some(name) = name_after(&code[at + MARK.len()..]) else {
            continue;
        };
        let own = remark(&comment_above(&lines, line), NOT_ON_THE_CPU);
        let not_on_the_cpu = own.or_else(|| reason_for_all.map(str::to_owned));
        found.push(Kernel {
            name: name.to_owned(),
            line: line + 1,
            not_on_the_cpu,
        });
    }
    found
}

/// A macro that makes kernels is none itself; what it makes shows in the machine code.
fn in_macro(lines: &[&str], line: usize) -> bool {
    let continued = lines[..line]
        .iter()
        .rev()
        .take_while(|above| above.trim_end().ends_with('\\'));
    let first = line - continued.count();
    lines[first].trim_start().starts_with('#')
}

/// The lines of the comment that ends right above `line`, with a `template <…>` or `extern "C"` line between.
fn comment_above<'a>(lines: &[&'a str], line: usize) -> Vec<&'a str> {
    let mut first = line;
    while first > 0 {
        let above = lines[first - 1].trim();
        if !["//", "template", "extern"]
            .iter()
            .any(|start| above.starts_with(start))
        {
            break;
        }
        first -= 1;
    }
    lines[first..line].to_vec()
}

/// The function's name: the first word before a parenthesis that is not an attribute with arguments.
fn name_after(code: &str) -> Option<&str> {
    let mut rest = code;
    loop {
        let open = rest.find('(')?;
        if rest[..open].contains([';', '{']) {
            return None;
        }
        let before = rest[..open].trim_end();
        let start = before
            .rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .map_or(0, |i| i + 1);
        let name = &before[start..];
        if !name.starts_with("__") {
            return (!name.is_empty()).then_some(name);
        }
        rest = &rest[open..];
        let mut depth = 0;
        let close = rest.find(|c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0
        })?;
        rest = &rest[close + 1..];
    }
}

/// Comments and the insides of strings become spaces; every byte that stays keeps its place.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.char_indices().peekable();
    let blank = |out: &mut String, c: char| {
        if c == '\n' {
            out.push(c);
        } else {
            out.extend(std::iter::repeat_n(' ', c.len_utf8()));
        }
    };
    while let Some((at, c)) = chars.next() {
        let rest = &text[at..];
        let end = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if c == '"' {
            string_end(rest)
        } else {
            out.push(c);
            continue;
        };
        blank(&mut out, c);
        while let Some((_, c)) = chars.next_if(|(i, _)| *i < at + end) {
            blank(&mut out, c);
        }
    }
    out
}

fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (i, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return i + 1,
            '\n' => return i,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> KernelFile {
        KernelFile::parse("a.cu".into(), text.into())
    }

    #[test]
    fn kernels_are_found_by_name_and_line() {
        let file = parse(
            "// Talks of __global__ void none().\n\
             /* __global__ void nor_this() */\n\
             extern \"C\" __global__ void __launch_bounds__(256, min(2, 4))\n  first(float* x) {}\n\
             template <int N>\n__global__ void second(int n);\n\
             const char* text = \"__global__ void in_a_string(\";\n\
             #define MAKE(name) __global__ void name##_f32() {}\n\
             #define MAKE_LONG(name) \\\n    extern \"C\"   \\\n    __global__ void name() {}\n\
             __global__ __launch_bounds__(32) void third() {}\n",
        );
        let found: Vec<(&str, usize)> = file
            .kernels
            .iter()
            .map(|k| (k.name.as_str(), k.line))
            .collect();
        assert_eq!(found, [("first", 3), ("second", 6), ("third", 12)]);
        assert_eq!(file.architectures, ["sm_80", "sm_90a", "sm_100"]);
    }

    #[test]
    fn a_reason_stands_above_its_kernel_or_at_the_top() {
        let text = "// Sums.\n\n\
             // Adds up.\n// Not on the CPU: waits for other blocks,\n// which run one after another there.\n\
             // Launch: one block.\n\
             extern \"C\"\n__global__ void sum() {}\n\n\
             // Copies.\n__global__ void copy() {}\n";
        let reasons: Vec<Option<String>> = parse(text)
            .kernels
            .into_iter()
            .map(|k| k.not_on_the_cpu)
            .collect();
        let reason = "waits for other blocks, which run one after another there".to_owned();
        assert_eq!(reasons, [Some(reason), None]);

        let all = format!("// Not on the CPU: wgmma.\n{text}");
        let reasons: Vec<Option<String>> = parse(&all)
            .kernels
            .into_iter()
            .map(|k| k.not_on_the_cpu)
            .collect();
        assert_eq!(reasons[1].as_deref(), Some("wgmma"));
    }

    #[test]
    fn architectures_are_those_that_the_file_names() {
        let of = |said: &str| {
            parse(&format!("// Matrix products.\n// Architectures: {said}\n")).architectures
        };
        assert_eq!(of("sm_90a."), ["sm_90a"]);
        assert_eq!(of("sm_90a, sm_100a"), ["sm_90a", "sm_100a"]);
        assert_eq!(of("sm_90 and newer"), ["sm_90a", "sm_100"]);
        assert_eq!(
            of("all from sm_80 on. Not sm_75."),
            ["sm_80", "sm_90a", "sm_100"]
        );
        assert_eq!(of("any"), ["sm_80", "sm_90a", "sm_100"]);
    }

    #[test]
    fn a_kernel_made_by_a_macro_takes_its_line_from_the_text() {
        let mut file = parse(
            "#define MAKE(name) __global__ void name() {}\n\n__global__ void own() {}\nMAKE(made)\n",
        );
        file.add_compiled("own");
        file.add_compiled("made");
        let found: Vec<(&str, usize)> = file
            .kernels
            .iter()
            .map(|k| (k.name.as_str(), k.line))
            .collect();
        assert_eq!(found, [("own", 3), ("made", 4)]);
    }

    #[test]
    fn launched_names_lose_their_template_arguments() {
        assert_eq!(launched_name("per_sample"), "per_sample");
        assert_eq!(launched_name("(gather<float, 4>)"), "gather");
        assert_eq!(launched_name("kernels::scan<2>"), "scan");
    }
}
