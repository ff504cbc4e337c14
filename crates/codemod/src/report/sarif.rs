//! The report in SARIF 2.1.0, for code scanning services and editors.
//!
//! Only unresolved sites are findings (`fail`, at level `warning`); what was done is `informational`, so that a service
//! opens no alert for it. Columns count Unicode code points, as the records do, and the run says so.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::Report;
use crate::record::{Record, RecordKind};

/// What tool writes the log.
#[derive(Debug, Clone, Copy)]
pub struct Tool<'a> {
    pub name: &'a str,
    pub version: &'a str,
}

/// The whole log, indented, with a line end.
pub fn render(report: &Report<'_>, tool: Tool<'_>) -> String {
    let mut rules: Vec<&str> = report
        .records
        .iter()
        .map(|record| record.rule.as_str())
        .collect();
    rules.sort_unstable();
    rules.dedup();
    let results: Vec<Value> = report
        .records
        .iter()
        .map(|record| result(record, &rules))
        .collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": tool.name,
                "semanticVersion": tool.version,
                "rules": rules.iter().map(|id| json!({ "id": id })).collect::<Vec<_>>(),
            } },
            "columnKind": "unicodeCodePoints",
            "originalUriBaseIds": { "ROOT": { "description": { "text": "the root of the migrated tree" } } },
            "results": results,
        }],
    });
    let mut text =
        serde_json::to_string_pretty(&log).expect("the log is made of maps with text keys");
    text.push('\n');
    text
}

fn result(record: &Record, rules: &[&str]) -> Value {
    let (kind, level) = match record.kind {
        RecordKind::Unresolved => ("fail", "warning"),
        // Level `none` is what the standard asks for wherever the kind is not `fail`.
        RecordKind::Edit | RecordKind::Deleted | RecordKind::Note => ("informational", "none"),
    };
    let mut message = record.reason.clone();
    if let Some(suggestion) = &record.suggestion {
        write!(message, "; {suggestion}").expect("writing to a string");
    }
    let mut physical = Map::new();
    physical.insert("artifactLocation".to_owned(), artifact(record));
    if !record.source.is_empty() {
        physical.insert("region".to_owned(), region(record));
        physical.insert(
            "contextRegion".to_owned(),
            json!({ "startLine": record.line, "snippet": { "text": record.source } }),
        );
    }
    let mut result = json!({
        "ruleId": record.rule,
        "ruleIndex": rules.binary_search(&record.rule.as_str()).expect("the rules are those of the records"),
        "kind": kind,
        "level": level,
        "message": { "text": message },
        "locations": [{ "physicalLocation": physical }],
        "properties": { "outcome": record.kind },
    });
    if let (RecordKind::Edit, Some(after)) = (record.kind, &record.after) {
        let replacement =
            json!({ "deletedRegion": region(record), "insertedContent": { "text": after } });
        result["fixes"] = json!([{ "artifactChanges": [{ "artifactLocation": artifact(record), "replacements": [replacement] }] }]);
    }
    result
}

fn artifact(record: &Record) -> Value {
    json!({ "uri": uri(&record.file), "uriBaseId": "ROOT" })
}

fn region(record: &Record) -> Value {
    let Some((end_line, end_column)) = end(record) else {
        // Without an end, a region reaches to the end of its line.
        return json!({ "startLine": record.line, "startColumn": record.column });
    };
    json!({
        "startLine": record.line,
        "startColumn": record.column,
        "endLine": end_line,
        "endColumn": end_column,
        "byteOffset": record.byte_start,
        "byteLength": record.byte_end - record.byte_start,
    })
}

/// Line and column behind the site, where the record holds the text of it.
fn end(record: &Record) -> Option<(usize, usize)> {
    let n_bytes = record.byte_end - record.byte_start;
    let in_line = &record.source[super::span_in_line(record)];
    let text = record
        .before
        .as_deref()
        .filter(|before| before.len() == n_bytes)
        .unwrap_or(in_line);
    if text.len() != n_bytes {
        return None;
    }
    let last_line = text.rsplit('\n').next().unwrap_or_default().chars().count();
    match text.matches('\n').count() {
        0 => Some((record.line, record.column + last_line)),
        n_breaks => Some((record.line + n_breaks, last_line + 1)),
    }
}

/// A relative reference: what RFC 3986 does not allow in a path segment is percent-encoded, as is `:`, which would make
/// the first segment read as a scheme.
fn uri(path: &str) -> String {
    let mut uri = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=@".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            write!(uri, "%{byte:02X}").expect("writing to a string");
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use crate::plan::Plan;

    /// The structure of the published schema as far as this form reaches: types, required and allowed members, values,
    /// bounds. Made from the schema of the OASIS committee by leaving out its prose and all definitions that are not used.
    const STRUCTURE: &str = include_str!("sarif-2.1.0.structure.json");
    const TOOL: Tool<'_> = Tool {
        name: "migrate",
        version: "0.1.0",
    };

    /// Checks `value` against `schema`; a keyword that is not known here is a failure, so that none is passed over.
    fn validate(value: &Value, schema: &Value, root: &Value, at: &str, faults: &mut Vec<String>) {
        let mut check = |ok: bool, what: String| {
            if !ok {
                faults.push(format!("{at}: {what}"));
            }
        };
        for (keyword, rule) in schema.as_object().expect("a schema is an object") {
            match keyword.as_str() {
                "$ref" => {
                    let pointer = rule
                        .as_str()
                        .expect("text")
                        .strip_prefix('#')
                        .expect("a local reference");
                    validate(
                        value,
                        root.pointer(pointer).expect("the definition is there"),
                        root,
                        at,
                        faults,
                    );
                    return;
                }
                "type" => {
                    let ok = match rule.as_str().expect("one type") {
                        "object" => value.is_object(),
                        "array" => value.is_array(),
                        "string" => value.is_string(),
                        "integer" => value.is_i64() || value.is_u64(),
                        "number" => value.is_number(),
                        "boolean" => value.is_boolean(),
                        other => panic!("unknown type {other}"),
                    };
                    check(ok, format!("not of type {rule}"));
                }
                "enum" => check(
                    rule.as_array().expect("values").contains(value),
                    format!("{value} is not one of {rule}"),
                ),
                "required" => {
                    for name in rule.as_array().expect("names") {
                        check(
                            value.get(name.as_str().expect("text")).is_some(),
                            format!("lacks {name}"),
                        );
                    }
                }
                "minimum" => check(
                    value.as_i64() >= rule.as_i64(),
                    format!("{value} is less than {rule}"),
                ),
                "maximum" => check(
                    value.as_f64() <= rule.as_f64(),
                    format!("{value} is more than {rule}"),
                ),
                "minItems" => check(
                    value.as_array().map(Vec::len) >= Some(to_usize(rule)),
                    format!("fewer than {rule} items"),
                ),
                "uniqueItems" => {
                    let items = value.as_array().map_or(&[][..], Vec::as_slice);
                    let unique = items
                        .iter()
                        .enumerate()
                        .all(|(n, item)| !items[..n].contains(item));
                    check(
                        !rule.as_bool().expect("a flag") || unique,
                        "has equal items".to_owned(),
                    );
                }
                "anyOf" => {
                    let fits = |option: &Value| {
                        let mut found = Vec::new();
                        validate(value, option, root, at, &mut found);
                        found.is_empty()
                    };
                    check(
                        rule.as_array().expect("options").iter().any(fits),
                        "fits none of the options".to_owned(),
                    );
                }
                "properties" | "additionalProperties" | "items" | "default" | "definitions" => {}
                other => panic!("unknown keyword {other}"),
            }
        }
        if let (Some(items), Some(schema)) = (value.as_array(), schema.get("items")) {
            for (n, item) in items.iter().enumerate() {
                validate(item, schema, root, &format!("{at}/{n}"), faults);
            }
        }
        for (name, member) in value.as_object().into_iter().flatten() {
            let at = format!("{at}/{name}");
            match schema
                .get("properties")
                .and_then(|properties| properties.get(name))
                .or(schema.get("additionalProperties"))
            {
                Some(Value::Bool(false)) => faults.push(format!("{at}: not allowed")),
                Some(schema @ Value::Object(_)) => validate(member, schema, root, &at, faults),
                _ => {}
            }
        }
    }

    fn to_usize(number: &Value) -> usize {
        usize::try_from(number.as_u64().expect("a count")).expect("a small count")
    }

    fn faults(log: &Value) -> Vec<String> {
        let schema: Value = serde_json::from_str(STRUCTURE).expect("the schema is JSON");
        let mut faults = Vec::new();
        validate(log, &schema, &schema, "", &mut faults);
        faults
    }

    #[test]
    fn the_log_fits_the_schema() {
        let mut plan = samples::plan();
        plan.records[0].file = "with space/gr\u{fc}n:1.rs".to_owned();
        for plan in [plan, Plan::default()] {
            let log = serde_json::from_str(&render(&Report::from(&plan), TOOL)).expect("JSON");
            assert_eq!(faults(&log), Vec::<String>::new());
        }
    }

    #[test]
    fn the_schema_is_not_toothless() {
        let log: Value =
            serde_json::from_str(&render(&Report::from(&samples::plan()), TOOL)).expect("JSON");
        let break_it = |pointer: &str, value: Value| {
            let mut log = log.clone();
            *log.pointer_mut(pointer).expect("is there") = value;
            faults(&log)
        };
        assert_eq!(
            break_it("/version", json!("2.0")),
            ["/version: \"2.0\" is not one of [\"2.1.0\"]"]
        );
        assert_eq!(
            break_it("/runs/0/tool/driver", json!({})),
            ["/runs/0/tool/driver: lacks \"name\""]
        );
        assert_eq!(break_it("/runs/0/results/0/level", json!("high")).len(), 1);
        assert_eq!(
            break_it("/runs/0/results/0/message", json!({ "txt": "" })).len(),
            2
        );
        assert_eq!(
            break_it(
                "/runs/0/results/0/locations/0/physicalLocation/region/startLine",
                json!(0)
            )
            .len(),
            1
        );
        assert_eq!(
            break_it(
                "/runs/0/results/0/locations/0/physicalLocation/artifactLocation",
                json!(7)
            )
            .len(),
            1
        );
    }

    #[test]
    fn a_log_with_one_of_each() {
        insta::assert_snapshot!(render(&Report::from(&samples::plan()), TOOL));
    }

    #[test]
    fn odd_names_are_encoded() {
        assert_eq!(uri("a b/gr\u{fc}n:1.rs"), "a%20b/gr%C3%BCn%3A1.rs");
    }
}
