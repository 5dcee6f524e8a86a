-- The two roles of WMS2 and the ownership of its database. Run by a superuser in WMS2's database; may be repeated.
--   wms2_owner  owns the tables and runs migrations; no running process of WMS2 knows its password
--   wms2_app    what every process runs as: reads and writes rows, appends to the audit, changes no table
-- What wms2_app may do is granted after each migration: manage.py database_access wms2_app
DO $$
DECLARE
    name text;
    thing record;
BEGIN
    FOREACH name IN ARRAY ARRAY['wms2_owner', 'wms2_app'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            EXECUTE format('CREATE ROLE %I', name);
        END IF;
        EXECUTE format('ALTER ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS', name);
    END LOOP;
    -- a role that is a member of another one can take it on with SET ROLE
    FOR thing IN SELECT roleid::regrole AS role FROM pg_auth_members WHERE member = 'wms2_app'::regrole LOOP
        EXECUTE format('REVOKE %s FROM wms2_app', thing.role);
    END LOOP;
    EXECUTE format('ALTER DATABASE %I OWNER TO wms2_owner', current_database());
    EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
    EXECUTE format('GRANT CONNECT, TEMPORARY ON DATABASE %I TO wms2_app', current_database());
    REVOKE CREATE ON SCHEMA public FROM PUBLIC;
    GRANT USAGE, CREATE ON SCHEMA public TO wms2_owner;
    GRANT USAGE ON SCHEMA public TO wms2_app;
    -- what an earlier version created as another role
    FOR thing IN
        SELECT c.oid::regclass AS named FROM pg_class c
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')
          AND c.relowner <> 'wms2_owner'::regrole
    LOOP
        EXECUTE format('ALTER TABLE %s OWNER TO wms2_owner', thing.named);  -- with its sequences and indexes
    END LOOP;
    FOR thing IN
        SELECT p.oid::regprocedure AS named FROM pg_proc p
        WHERE p.pronamespace = 'public'::regnamespace AND p.proowner <> 'wms2_owner'::regrole
          AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
    LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO wms2_owner', thing.named);
    END LOOP;
END $$;
