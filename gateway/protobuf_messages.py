"""Classes of protobuf messages from a table of their fields: for formats of which no package on the index has them."""

from collections.abc import Mapping, Sequence
from typing import Any


def message_class(package: str, fields: Mapping[str, Sequence[str]], name: str) -> Any:
    """Return the class of a message; needs protobuf, of the extra "otel".

    Args:
        package: of all of them.
        fields: by message, each as "NUMBER NAME TYPE", the type protobuf's own or another message; a * behind it makes
            a repeated one. Unnamed fields are skipped when it is read.
        name: the message wanted.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field_class = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package)
    for message_name, described in fields.items():
        message = file.message_type.add(name=message_name)
        for number, field_name, kind in map(str.split, described):
            label = field_class.LABEL_REPEATED if kind.endswith("*") else field_class.LABEL_OPTIONAL
            field = message.field.add(name=field_name, number=int(number), label=label)
            kind = kind.rstrip("*")
            if kind in fields:
                field.type_name = f".{package}.{kind}"
            else:
                field.type = getattr(field_class, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
