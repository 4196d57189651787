// SPDX-License-Identifier: MIT OR Apache-2.0
//! A JSON object as the texts of its members. Everything that is not edited keeps its text:
//! unknown objects, the order of keys, the spelling of numbers.

use std::fmt;

use serde::{
    de::{Deserialize, Deserializer, MapAccess, Visitor},
    ser::{Serialize, Serializer},
};
use serde_json::value::{RawValue, to_raw_value};

use crate::luks2::field::c_text;

/// The members of a JSON object, in order.
#[derive(Clone, Debug, Default)]
pub(in crate::luks2) struct JsonMembers(Vec<(String, Box<RawValue>)>);

impl JsonMembers {
    /// Parses a text that was parsed as metadata before, so that there is an object wherever one is
    /// expected.
    pub(in crate::luks2) fn parse(text: &str) -> Self {
        serde_json::from_str(text).expect("parsing the metadata checked that this is an object")
    }

    pub(in crate::luks2) fn text(&self) -> String {
        serde_json::to_string(self).expect("valid JSON members serialise")
    }

    pub(in crate::luks2) fn raw(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(key, _)| key == name)?;
        Some(value.get())
    }

    /// Sets a member in place, or appends it at the end as json-c does.
    pub(in crate::luks2) fn set(&mut self, name: &str, value: &impl Serialize) {
        let value = to_raw_value(value).expect("the value is valid JSON");
        match self.0.iter_mut().find(|(key, _)| key == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.into(), value)),
        }
    }

    pub(in crate::luks2) fn remove(&mut self, name: &str) {
        self.0.retain(|(key, _)| key != name);
    }

    /// Edits the object at `path`.
    pub(in crate::luks2) fn edit(&mut self, path: &[&str], edit: impl FnOnce(&mut Self)) {
        let Some((first, rest)) = path.split_first() else {
            return edit(self);
        };
        let mut object = Self::parse(self.raw(first).expect("parsing the metadata checked it"));
        object.edit(rest, edit);
        self.set(first, &object);
    }

    /// Returns the texts in an array, such as references, each as a string of C. Empty if there is no such
    /// array.
    pub(in crate::luks2) fn references(&self, name: &str) -> Vec<String> {
        let Some(text) = self.raw(name) else {
            return Vec::new();
        };
        let texts: Vec<String> =
            serde_json::from_str(text).expect("parsing the metadata checked these strings");
        texts.iter().map(|text| c_text(text).to_owned()).collect()
    }

    /// Edits every member, each of which must be an object. Members for which `edit` returns false
    /// are removed.
    pub(in crate::luks2) fn retain(&mut self, mut edit: impl FnMut(&mut Self) -> bool) {
        self.0.retain_mut(|(_, value)| {
            let mut object = Self::parse(value.get());
            let before = object.text();
            let keep = edit(&mut object);
            let after = object.text();
            if after != before {
                *value = RawValue::from_string(after).expect("valid JSON members serialise");
            }
            keep
        });
    }
}

impl Serialize for JsonMembers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de> Deserialize<'de> for JsonMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct JsonMembersVisitor;
        impl<'de> Visitor<'de> for JsonMembersVisitor {
            type Value = JsonMembers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<JsonMembers, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = items.next_entry()? {
                    members.push(member);
                }
                Ok(JsonMembers(members))
            }
        }
        deserializer.deserialize_map(JsonMembersVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_are_not_edited_keep_their_bytes() {
        let text =
            r#"{"b":{"z":[1.50, -0,1e3],"a":"\/\u00e9é"},"a":99999999999999999999,"c":{"d":{}}}"#;
        let mut members = JsonMembers::parse(text);
        assert_eq!(members.text(), text);
        members.edit(&["c", "d"], |d| d.set("new", &"x/y"));
        assert_eq!(members.text(), text.replace("{}", r#"{"new":"x/y"}"#));
        members.edit(&["c"], |c| c.set("d", &7));
        assert_eq!(members.text(), text.replace("{}", "7"));
        members.edit(&["b"], |b| b.remove("a"));
        members.remove("c");
        let expected = r#"{"b":{"z":[1.50, -0,1e3]},"a":99999999999999999999}"#;
        assert_eq!(members.text(), expected);
    }

    #[test]
    fn retained_members_keep_their_bytes() {
        let text = r#"{"0":{ "a" : 1, "b":[ ] },"1":{ "a" : 2 },"2":{ "c" : 3 }}"#;
        let mut members = JsonMembers::parse(text);
        members.retain(|object| {
            object.remove("c");
            object.raw("a") != Some("2")
        });
        assert_eq!(members.text(), r#"{"0":{ "a" : 1, "b":[ ] },"2":{}}"#);
    }
}
