"""What the consumers of reports demand, as JSON schemas: the parts of the published ones that our
output meets.
"""

from __future__ import annotations

_POSITIVE = {"type": "integer", "minimum": 1}
_MESSAGE = {
    "type": "object",
    "required": ["text"],
    "properties": {"text": {"type": "string", "minLength": 1}, "markdown": {"type": "string"}},
    "additionalProperties": False,
}
_PHYSICAL = {
    "type": "object",
    "required": ["artifactLocation"],
    "additionalProperties": False,
    "properties": {
        "artifactLocation": {
            "type": "object",
            "required": ["uri"],
            "additionalProperties": False,
            "properties": {
                # RFC 3986: no blanks, no backslashes
                "uri": {"type": "string", "pattern": r"^[^\s\\]+$"},
                "uriBaseId": {"type": "string"},
                "index": {"type": "integer", "minimum": -1},
            },
        },
        "region": {
            "type": "object",
            "required": ["startLine"],
            "additionalProperties": False,
            "properties": dict.fromkeys(
                ("startLine", "startColumn", "endLine", "endColumn"), _POSITIVE
            ),
        },
    },
}

# OASIS, Static Analysis Results Interchange Format (SARIF) 2.1.0, sections 3.13 to 3.49.
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool"],
                "additionalProperties": False,
                "properties": {
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "additionalProperties": False,
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "additionalProperties": False,
                                "properties": {
                                    "name": {"type": "string"},
                                    "semanticVersion": {"type": "string"},
                                    "informationUri": {"type": "string", "format": "uri"},
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "type": "object",
                                            "required": ["id"],
                                            "additionalProperties": False,
                                            "properties": {
                                                "id": {"type": "string"},
                                                "name": {"type": "string"},
                                                "shortDescription": _MESSAGE,
                                                "fullDescription": _MESSAGE,
                                                "help": _MESSAGE,
                                                "helpUri": {"type": "string", "format": "uri"},
                                                "defaultConfiguration": {
                                                    "type": "object",
                                                    "additionalProperties": False,
                                                    "properties": {
                                                        "level": {
                                                            "enum": [
                                                                "none",
                                                                "note",
                                                                "warning",
                                                                "error",
                                                            ]
                                                        }
                                                    },
                                                },
                                                "properties": {"type": "object"},
                                            },
                                        },
                                    },
                                },
                            }
                        },
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["message"],
                            "additionalProperties": False,
                            "properties": {
                                "ruleId": {"type": "string"},
                                "ruleIndex": {"type": "integer", "minimum": 0},
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "message": _MESSAGE,
                                "locations": {
                                    "type": "array",
                                    "maxItems": 10,
                                    "items": {
                                        "type": "object",
                                        "additionalProperties": False,
                                        "properties": {"physicalLocation": _PHYSICAL},
                                    },
                                },
                                "relatedLocations": {
                                    "type": "array",
                                    "uniqueItems": True,
                                    "items": {
                                        "type": "object",
                                        "additionalProperties": False,
                                        "properties": {
                                            "id": {"type": "integer", "minimum": -1},
                                            "message": _MESSAGE,
                                            "physicalLocation": _PHYSICAL,
                                        },
                                    },
                                },
                                "partialFingerprints": {
                                    "type": "object",
                                    "additionalProperties": {"type": "string"},
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}

# GitLab, code quality report format:
# https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
GITLAB = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "pattern": r"^(?!/|\./)[^\\]+$"},
                    "lines": {
                        "type": "object",
                        "required": ["begin"],
                        "properties": {"begin": _POSITIVE, "end": _POSITIVE},
                    },
                },
            },
        },
    },
}

# Jenkins' xunit plugin, junit-10.xsd: what an element must have, may have, and holds.
JUNIT = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {
            "group",
            "time",
            "skipped",
            "timestamp",
            "hostname",
            "id",
            "package",
            "file",
            "log",
            "url",
        },
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "testcase": (
        {"name"},
        {"time", "classname", "group"},
        {"skipped", "error", "failure", "rerunFailure", "rerunError", "system-out", "system-err"},
    ),
    "failure": (set(), {"type", "message"}, set()),
}

_FIELDS = ["rule", "message", "severity", "path", "line", "column", "end_line", "end_column", "fix"]
FINDING = {
    "type": "object",
    "required": [*_FIELDS, "related"],
    "additionalProperties": False,
    "properties": {
        "rule": {"type": "string"},
        "message": {"type": "string", "minLength": 10},
        "severity": {"enum": ["error", "warning", "info"]},
        "path": {"type": "string"},
        "line": _POSITIVE,
        "column": _POSITIVE,
        "end_line": _POSITIVE,
        "end_column": _POSITIVE,
        "related": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["line", "column", "message"],
                "properties": {
                    "line": _POSITIVE,
                    "column": _POSITIVE,
                    "message": {"type": "string"},
                },
            },
        },
        "fix": {
            "oneOf": [
                {"type": "null"},
                {
                    "type": "object",
                    "required": ["safety", "message"],
                    "additionalProperties": False,
                    "properties": {
                        "safety": {"enum": ["safe", "unsafe"]},
                        "message": {"type": "string", "minLength": 1},
                    },
                },
            ]
        },
    },
}
