"""Row-level security: second factors and links with the company belong to one person."""

from __future__ import annotations

from django.db import migrations

from foundation.database import policies

MY_ID = f"(SELECT id FROM memory_project_user WHERE email = {policies.EMAIL})"


class Migration(migrations.Migration):

    dependencies = [
        ('memory_project', '0012_single_sign_on'),
        ('mfa', '0003_authenticator_type_uniq'),
    ]

    operations = [
        migrations.RunSQL(
            policies.protect("mfa_authenticator", read=f"(user_id = {MY_ID})"), policies.unprotect("mfa_authenticator")
        ),
        migrations.RunSQL(
            # only a sign-in and admins write it
            policies.protect("company_identities", read=f"(person_id = {MY_ID})", write="false"),
            policies.unprotect("company_identities"),
        ),
    ]
